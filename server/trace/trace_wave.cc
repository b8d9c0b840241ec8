// SPDX-License-Identifier: Apache-2.0
#include "server/trace/trace_wave.h"

#include <map>
#include <numeric>
#include <utility>

#include "server/model/torch_guard.h"
#include "server/trace/request_memory.h"

namespace phitap {
namespace {

RequestMemory& MemoryOf(const WaveRun& run) {
  return static_cast<RequestMemory&>(*run.memory);
}

// Runs that must be computed together: those of one group of one request.
using Together = std::pair<const TraceMemory*, int>;
Together TogetherOf(const WaveRun& run) {
  return {run.memory.get(), MemoryOf(run).index().parts(run.run).group};
}

}  // namespace

TraceWave::TraceWave(const Phi3& model, KeptRoots& roots, WavePlan plan)
    : model_(model),
      roots_(roots),
      failures_(plan.runs.size()),
      runs_(plan.runs) {
  Attempt whole{.plan = std::move(plan)};
  whole.members.resize(runs_.size());
  std::iota(whole.members.begin(), whole.members.end(), size_t{0});
  attempts_.push_back(std::move(whole));
}

bool TraceWave::Step() {
  if (attempts_.empty()) return false;
  bool more = false;
  const absl::Status status = RunGuarded([&] {
    more = Step(attempts_.front());
    return absl::OkStatus();
  });
  if (status.ok() && more) return true;
  Attempt attempt = std::move(attempts_.front());
  attempts_.pop_front();
  if (status.ok()) {
    Ended(std::move(attempt));
  } else {
    // Its memory is needed for what is computed instead.
    attempt.pass.reset();
    Failed(attempt, status);
  }
  return !attempts_.empty();
}

bool TraceWave::Step(Attempt& attempt) const {
  if (attempt.pass == nullptr) {
    attempt.pass = std::make_unique<WavePass>(model_, attempt.plan, roots_);
  }
  return attempt.pass->Step();
}

void TraceWave::Ended(Attempt attempt) {
  std::vector<size_t> again;
  for (size_t run = 0; run < attempt.members.size(); ++run) {
    if (attempt.pass->MustRunAgain(run)) again.push_back(run);
  }
  for (const size_t run : TryAlone(attempt, again)) attempt.pass->Withdraw(run);
  ended_.push_back(std::move(attempt));
}

void TraceWave::Failed(const Attempt& attempt, const absl::Status& status) {
  std::vector<size_t> all(attempt.members.size());
  std::iota(all.begin(), all.end(), size_t{0});
  bool one_group = true;
  for (const WaveRun& run : attempt.plan.runs) {
    one_group =
        one_group && TogetherOf(run) == TogetherOf(attempt.plan.runs.front());
  }
  if (!one_group || !attempt.plan.rows.empty()) {
    TryAlone(attempt, all);
    return;
  }
  for (const size_t member : attempt.members) failures_[member] = status;
}

std::vector<size_t> TraceWave::TryAlone(const Attempt& attempt,
                                        const std::vector<size_t>& runs) {
  std::vector<size_t> all;
  if (runs.empty()) return all;
  std::map<Together, std::vector<size_t>> groups;
  for (const size_t run : runs) groups[TogetherOf(attempt.plan.runs[run])];
  for (size_t run = 0; run < attempt.members.size(); ++run) {
    const auto group = groups.find(TogetherOf(attempt.plan.runs[run]));
    if (group != groups.end()) group->second.push_back(run);
  }
  for (const auto& [together, members] : groups) {
    Attempt alone;
    for (const size_t run : members) {
      alone.members.push_back(attempt.members[run]);
      alone.plan.runs.push_back(attempt.plan.runs[run]);
      alone.plan.runs.back().row = -1;
      all.push_back(run);
    }
    attempts_.push_back(std::move(alone));
  }
  return all;
}

std::vector<RowOutcome> TraceWave::Finish() {
  std::vector<RowOutcome> outcomes(
      runs_.size(),
      {.status = absl::InternalError("the wave was not stepped to its end")});
  for (Attempt& attempt : ended_) {
    std::vector<RowOutcome> ended = attempt.pass->Finish();
    for (size_t i = 0; i < ended.size(); ++i) {
      outcomes[attempt.members[i]] = std::move(ended[i]);
    }
    const std::vector<RootId> kept = attempt.pass->KeepRoots();
    kept_roots_.insert(kept_roots_.end(), kept.begin(), kept.end());
  }
  for (size_t run = 0; run < runs_.size(); ++run) {
    if (failures_[run].ok()) continue;
    outcomes[run] = {.status = failures_[run]};
    MemoryOf(runs_[run]).EndRun(runs_[run].run);
  }
  ended_.clear();
  return outcomes;
}

}  // namespace phitap
