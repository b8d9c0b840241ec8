#include "server/schedule/group_order.h"

#include <algorithm>
#include <utility>

namespace phitap {
namespace {

// Of the run's prompt; where the wave has others of its request, of what it
// does not share with them.
int64_t PromptTokens(const PlannedRun& run, int others) {
  const auto token_count = static_cast<int64_t>(run.ids.size());
  return others == 0 ? token_count : std::min(run.own_token_count, token_count);
}

// A run's head takes at most as much as so many of its tokens.
constexpr int64_t kTokensOfAHead = 8;

}  // namespace

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
    if (planned.after.empty()) MakeReady(group);
  }
}

PassPhase GroupOrder::PhaseOf(int group) const {
  if (PlannedOf(group).gradient_pass >= 0) return PassPhase::kGradient;
  return generating_[group] ? PassPhase::kToken : PassPhase::kPrompt;
}

void GroupOrder::MakeReady(int group) {
  ready_[static_cast<int>(PhaseOf(group))].push_back(
      {.group = group, .since = made_ready_count_++});
}

std::optional<PassPhase> GroupOrder::first_phase() const {
  std::optional<PassPhase> first;
  for (int i = 0; i < kPassPhaseCount; ++i) {
    const auto phase = static_cast<PassPhase>(i);
    if (!has_ready(phase)) continue;
    if (!first.has_value() ||
        ReadyOf(phase).front().since < ReadyOf(*first).front().since) {
      first = phase;
    }
  }
  return first;
}

PassSize GroupOrder::NextSize(PassPhase phase, int others) const {
  const int group = ReadyOf(phase).front().group;
  PassSize size = {.workspace_bytes = WorkspaceOf(group, phase)};
  if (others == 0) size.workspace_bytes += plan_->workspace_bytes;
  for (int run : live_runs_[group]) {
    const PlannedRun& planned = plan_->runs[run];
    const int64_t tokens =
        phase == PassPhase::kToken ? 1 : PromptTokens(planned, others);
    size.tokens += tokens;
    size.token_layers += tokens * std::max(planned.reach.layer_count, 1);
    ++others;
  }
  return size;
}

int64_t GroupOrder::WorkspaceOf(int group, PassPhase phase) const {
  const int64_t bytes = PlannedOf(group).workspace_bytes;
  if (phase != PassPhase::kToken) return bytes;
  // A token needs what a prompt's one does, and its head what a prompt's does:
  // less than a few tokens take.
  const std::vector<int>& runs = PlannedOf(group).runs;
  int64_t tokens = 0;
  for (int run : runs) tokens += plan_->runs[run].own_token_count;
  const auto run_count = static_cast<int64_t>(runs.size());
  const int64_t mean = std::max<int64_t>(tokens / run_count, 1);
  return bytes / std::min(mean, kTokensOfAHead);
}

GroupPass GroupOrder::Take(PassPhase phase) {
  std::deque<ReadyGroup>& ready = ready_[static_cast<int>(phase)];
  const int group = ready.front().group;
  ready.pop_front();
  return {.group = group, .runs = live_runs_[group], .phase = phase};
}

void GroupOrder::GoOn(int group, std::vector<int> runs) {
  live_runs_[group] = std::move(runs);
  generating_[group] = true;
  MakeReady(group);
}

void GroupOrder::EndWell(int group) {
  ended_[group] = true;
  --unended_count_;
  for (int follower : followers_[group]) {
    // One that another group's failure has ended stays so.
    if (--awaited_counts_[follower] == 0 && !ended_[follower]) {
      MakeReady(follower);
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
