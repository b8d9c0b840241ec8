// Which groups of a plan's runs can be computed next.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_SCHEDULE_GROUP_ORDER_H_
#define PHITAP_SERVER_SCHEDULE_GROUP_ORDER_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "server/plan/trace_plan.h"

namespace phitap {

// One pass of a group: all of its runs that have not ended.
struct GroupPass {
  // Index into TracePlan::groups.
  int group = 0;
  std::vector<int> runs;
};

// A group is ready once every group that it comes after has ended well, and
// again after a pass from which runs go on. Groups that are ready take turns,
// so that neither prompts nor generated tokens starve. Thread-compatible.
class GroupOrder {
 public:
  explicit GroupOrder(std::shared_ptr<const TracePlan> plan);

  bool has_ready() const { return !ready_.empty(); }
  bool all_ended() const { return unended_count_ == 0; }

  // Of the pass that TakeNext would take; there must be one.
  int64_t NextTokenCount() const;
  bool NextIsGradient() const;
  // Takes the pass whose group has been ready for longest.
  GroupPass TakeNext();

  // After a pass: `runs` of the group (not none) go on.
  void GoOn(int group, std::vector<int> runs);
  // After a pass from which none goes on: frees the groups after it.
  void EndWell(int group);
  // After a pass from which none goes on, if a run of the group failed: the
  // groups after it will never be ready. Returns them; they have ended, too.
  std::vector<int> EndFailed(int group);

 private:
  const RunGroup& PlannedOf(int group) const { return plan_->groups[group]; }

  const std::shared_ptr<const TracePlan> plan_;
  // Of each group: those after it, and how many before it have not ended.
  std::vector<std::vector<int>> followers_;
  std::vector<int> awaited_counts_;
  // Of each group: its runs that have not ended, and whether they are past
  // their prompts.
  std::vector<std::vector<int>> live_runs_;
  std::vector<bool> generating_;
  std::vector<bool> ended_;
  std::deque<int> ready_;
  int unended_count_ = 0;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_SCHEDULE_GROUP_ORDER_H_
