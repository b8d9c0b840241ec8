// Which groups of a plan's runs can be computed next.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_SCHEDULE_GROUP_ORDER_H_
#define PHITAP_SERVER_SCHEDULE_GROUP_ORDER_H_

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "server/plan/trace_plan.h"

namespace phitap {

// What a pass computes: prompts, one more token of runs that generate, or a
// gradient. Passes of one wave are of one phase.
enum class PassPhase { kPrompt, kToken, kGradient };
inline constexpr int kPassPhaseCount = 3;

// One pass of a group: all of its runs that have not ended.
struct GroupPass {
  // Index into TracePlan::groups.
  int group = 0;
  std::vector<int> runs;
  PassPhase phase = PassPhase::kPrompt;
};

// What a pass takes of a wave. Estimates, but for the bytes, which are an upper
// bound.
struct PassSize {
  int64_t tokens = 0;
  // Σ layers × tokens.
  int64_t token_layers = 0;
  int64_t workspace_bytes = 0;
};

// A group is ready once every group that it comes after has ended well, and
// again after a pass from which runs go on. Groups of one phase that are ready
// take turns, and so do the phases, so that neither prompts nor generated
// tokens starve. Thread-compatible.
class GroupOrder {
 public:
  explicit GroupOrder(std::shared_ptr<const TracePlan> plan);

  bool has_ready() const { return first_phase().has_value(); }
  // Of the pass that has been ready for longest.
  std::optional<PassPhase> first_phase() const;
  bool has_ready(PassPhase phase) const { return !ReadyOf(phase).empty(); }
  bool all_ended() const { return unended_count_ == 0; }

  // Of the pass that Take(phase) would take; there must be one. `others` are
  // passes of the plan in the same wave: what runs share is counted once.
  PassSize NextSize(PassPhase phase, int others) const;
  // Takes the pass of this phase whose group has been ready for longest.
  GroupPass Take(PassPhase phase);

  // After a pass: `runs` of the group (not none) go on.
  void GoOn(int group, std::vector<int> runs);
  // After a pass from which none goes on: frees the groups after it.
  void EndWell(int group);
  // After a pass from which none goes on, if a run of the group failed: the
  // groups after it will never be ready. Returns them; they have ended, too.
  std::vector<int> EndFailed(int group);

 private:
  struct ReadyGroup {
    int group = 0;
    // Counts up: when it became ready.
    int64_t since = 0;
  };
  const RunGroup& PlannedOf(int group) const { return plan_->groups[group]; }
  const std::deque<ReadyGroup>& ReadyOf(PassPhase phase) const {
    return ready_[static_cast<int>(phase)];
  }
  PassPhase PhaseOf(int group) const;
  int64_t WorkspaceOf(int group, PassPhase phase) const;
  void MakeReady(int group);

  const std::shared_ptr<const TracePlan> plan_;
  // Of each group: those after it, and how many before it have not ended.
  std::vector<std::vector<int>> followers_;
  std::vector<int> awaited_counts_;
  // Of each group: its runs that have not ended, and whether they are past
  // their prompts.
  std::vector<std::vector<int>> live_runs_;
  std::vector<bool> generating_;
  std::vector<bool> ended_;
  // By phase.
  std::array<std::deque<ReadyGroup>, kPassPhaseCount> ready_;
  int64_t made_ready_count_ = 0;
  int unended_count_ = 0;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_SCHEDULE_GROUP_ORDER_H_
