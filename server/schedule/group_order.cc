#include "server/schedule/group_order.h"

#include <algorithm>
#include <utility>

namespace phitap {

GroupOrder::GroupOrder(std::shared_ptr<const TracePlan> plan)
    : plan_(std::move(plan)),
      followers_(plan_->groups.size()),
      generating_(plan_->groups.size()),
      ended_(plan_->groups.size()),
      unended_count_(static_cast<int>(plan_->groups.size())) {
  for (int group = 0; group < unended_count_; ++group) {
    const RunGroup& planned = PlannedOf(group);
    for (int before : planned.after) followers_[before].push_back(group);
    awaited_counts_.push_back(static_cast<int>(planned.after.size()));
    live_runs_.push_back(planned.runs);
    if (planned.after.empty()) ready_.push_back(group);
  }
}

int64_t GroupOrder::NextTokenCount() const {
  const int group = ready_.front();
  const std::vector<int>& runs = live_runs_[group];
  if (generating_[group]) return static_cast<int64_t>(runs.size());
  int64_t token_count = 0;
  for (int run : runs) {
    token_count += static_cast<int64_t>(plan_->runs[run].ids.size());
  }
  return token_count;
}

bool GroupOrder::NextIsGradient() const {
  return PlannedOf(ready_.front()).gradient_pass >= 0;
}

GroupPass GroupOrder::TakeNext() {
  const int group = ready_.front();
  ready_.pop_front();
  return {.group = group, .runs = live_runs_[group]};
}

void GroupOrder::GoOn(int group, std::vector<int> runs) {
  live_runs_[group] = std::move(runs);
  generating_[group] = true;
  ready_.push_back(group);
}

void GroupOrder::EndWell(int group) {
  ended_[group] = true;
  --unended_count_;
  for (int follower : followers_[group]) {
    // One that another group's failure has ended stays so.
    if (--awaited_counts_[follower] == 0 && !ended_[follower]) {
      ready_.push_back(follower);
    }
  }
}

std::vector<int> GroupOrder::EndFailed(int group) {
  std::vector<int> lost;
  std::vector<int> failed = {group};
  ended_[group] = true;
  --unended_count_;
  while (!failed.empty()) {
    const int before = failed.back();
    failed.pop_back();
    for (int follower : followers_[before]) {
      if (ended_[follower]) continue;
      ended_[follower] = true;
      --unended_count_;
      failed.push_back(follower);
      lost.push_back(follower);
    }
  }
  std::sort(lost.begin(), lost.end());
  return lost;
}

}  // namespace phitap
