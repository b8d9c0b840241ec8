#include "server/schedule/request_queue.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>

#include "absl/strings/str_cat.h"
#include "server/base/refusal_reason.h"

namespace phitap {
namespace {

// Token-layers: 512 tokens through 32 layers at a turn. A caller saves up at
// most about a wave.
constexpr DeficitRoundRobinOptions kTurns = {.quantum = int64_t{512} * 32,
                                             .max_saved = int64_t{8192} * 32};

RequestQueueLimits WithDefaults(RequestQueueLimits limits) {
  if (limits.max_caller_requests == 0) {
    limits.max_caller_requests = (limits.max_requests + 1) / 2;
  }
  return limits;
}

}  // namespace

RequestQueue::RequestQueue(RequestQueueLimits limits)
    : limits_(WithDefaults(limits)), turns_(kTurns) {}

absl::Status RequestQueue::Push(std::shared_ptr<AcceptedTrace> trace) {
  if (!CheckRoom(trace->caller).ok()) DropOver();
  absl::Status room = CheckRoom(trace->caller);
  if (room.ok()) Insert(std::move(trace));
  return room;
}

absl::Status RequestQueue::CheckRoom(const std::string& caller) const {
  if (size() >= limits_.max_requests) {
    return WithRefusalReason(
        absl::UnavailableError(
            absl::StrCat("the queue is full: ", size(), " of at most ",
                         limits_.max_requests, " requests are waiting")),
        RefusalReason::kQueueFull);
  }
  if (CountOf(caller) >= limits_.max_caller_requests) {
    return WithRefusalReason(
        absl::UnavailableError(absl::StrCat(
            "the queue holds ", CountOf(caller), " of at most ",
            limits_.max_caller_requests, " waiting requests of one caller")),
        RefusalReason::kCallerQueueFull);
  }
  return absl::OkStatus();
}

void RequestQueue::Insert(std::shared_ptr<AcceptedTrace> trace) {
  turns_.Join(trace->caller);
  CallersTraces& traces = callers_[trace->caller];
  InsertByPriority(std::move(trace), traces);
}

GatheredWave RequestQueue::TakeWave(const WaveLimits& limits) {
  WaveBuilder builder(limits);
  for (const auto& [caller, traces] : callers_) builder.Offer(caller, traces);
  const auto cost_of = [&](const std::string& caller) {
    return builder.CostOf(caller);
  };
  while (const std::optional<std::string> caller = turns_.Next(cost_of)) {
    turns_.Charge(*caller, *builder.CostOf(*caller));
    builder.Take(*caller);
  }
  GatheredWave wave = std::move(builder).Build();
  if (wave.empty()) return wave;

  for (const WaveEntry& entry : wave.entries) {
    // Where it had several passes taken, it moves several times.
    std::erase(callers_[entry.trace->caller], entry.trace);
    if (entry.trace->groups.has_ready()) Insert(entry.trace);
  }
  LeaveEmpty();
  turns_.EndTurn();
  return wave;
}

void RequestQueue::PutBack(const GatheredWave& wave) {
  for (const WaveEntry& entry : wave.entries) {
    if (!entry.trace->groups.has_ready() || entry.trace->stream->over() ||
        Holds(*entry.trace)) {
      continue;
    }
    Insert(entry.trace);
  }
}

void RequestQueue::DropOver() {
  for (auto& [caller, traces] : callers_) {
    const auto over =
        std::stable_partition(traces.begin(), traces.end(),
                              [](const std::shared_ptr<AcceptedTrace>& trace) {
                                trace->stream->FailIfExpired();
                                return !trace->stream->over();
                              });
    dropped_.insert(dropped_.end(), std::make_move_iterator(over),
                    std::make_move_iterator(traces.end()));
    traces.erase(over, traces.end());
  }
  LeaveEmpty();
}

void RequestQueue::LeaveEmpty() {
  std::erase_if(callers_, [this](const auto& entry) {
    if (!entry.second.empty()) return false;
    turns_.Leave(entry.first);
    return true;
  });
}

int RequestQueue::size() const {
  size_t count = 0;
  for (const auto& [caller, traces] : callers_) count += traces.size();
  return static_cast<int>(count);
}

std::map<std::string, int> RequestQueue::count_by_caller() const {
  std::map<std::string, int> counts;
  for (const auto& [caller, traces] : callers_) {
    counts[caller] = static_cast<int>(traces.size());
  }
  return counts;
}

int RequestQueue::CountOf(const std::string& caller) const {
  const auto found = callers_.find(caller);
  return found == callers_.end() ? 0 : static_cast<int>(found->second.size());
}

bool RequestQueue::Holds(const AcceptedTrace& trace) const {
  const auto found = callers_.find(trace.caller);
  return found != callers_.end() &&
         std::any_of(
             found->second.begin(), found->second.end(),
             [&](const auto& queued) { return queued.get() == &trace; });
}

void RequestQueue::TellPositions(int running) const {
  const std::vector<std::string> callers = turns_.InTurn();
  int ahead = running;
  const auto waiting = static_cast<size_t>(size());
  size_t told = 0;
  for (size_t round = 0; told < waiting; ++round) {
    for (const std::string& caller : callers) {
      const CallersTraces& traces = callers_.at(caller);
      if (round >= traces.size()) continue;
      // A request that has begun stays at 0.
      if (!traces[round]->begun) traces[round]->stream->SetQueuePosition(ahead);
      ++ahead;
      ++told;
    }
  }
}

}  // namespace phitap
