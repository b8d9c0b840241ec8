#include "server/schedule/request_queue.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace phitap {
namespace {

int64_t TokensOfNextRun(const AcceptedTrace& trace) {
  return static_cast<int64_t>(trace.plan->runs[trace.next_run].ids.size());
}

// Whether runs of `trace` may share a wave with those of `leader`.
bool MayJoin(const AcceptedTrace& leader, const AcceptedTrace& trace) {
  if (&leader == &trace) return leader.plan->numerics == Numerics::kCausal;
  const TracePlan& a = *leader.plan;
  const TracePlan& b = *trace.plan;
  return a.numerics == Numerics::kCausal && !a.isolate && !b.isolate &&
         a.numerics == b.numerics && a.attention == b.attention &&
         a.model == b.model;
}

// Collects runs until nothing more fits.
class WaveBuilder {
 public:
  WaveBuilder(std::shared_ptr<AcceptedTrace> leader, int64_t max_tokens)
      : leader_(std::move(leader)), free_tokens_(max_tokens) {
    Take(leader_);
  }

  // Whether `trace` had a run that fits.
  bool Offer(const std::shared_ptr<AcceptedTrace>& trace) {
    if (trace->all_runs_taken() || TokensOfNextRun(*trace) > free_tokens_ ||
        !MayJoin(*leader_, *trace)) {
      return false;
    }
    Take(trace);
    return true;
  }

  Wave Build() && { return std::move(wave_); }

 private:
  void Take(const std::shared_ptr<AcceptedTrace>& trace) {
    free_tokens_ -= TokensOfNextRun(*trace);
    wave_.push_back({.trace = trace, .run = trace->next_run++});
  }

  const std::shared_ptr<AcceptedTrace> leader_;
  int64_t free_tokens_;
  Wave wave_;
};

}  // namespace

absl::Status RequestQueue::Push(std::shared_ptr<AcceptedTrace> trace) {
  if (size() >= max_requests_) DropOver();
  if (size() >= max_requests_) {
    return absl::UnavailableError(
        absl::StrCat("the queue is full: ", size(), " of at most ",
                     max_requests_, " requests are waiting; try again later"));
  }
  traces_.push_back(std::move(trace));
  return absl::OkStatus();
}

Wave RequestQueue::TakeWave(int64_t max_tokens) {
  if (traces_.empty()) return {};
  WaveBuilder builder(traces_.front(), max_tokens);
  // The leader has had its turn of the first round. Who has nothing that fits
  // once, has nothing that fits later: there is less room then.
  std::vector<std::shared_ptr<AcceptedTrace>> joining(traces_.begin() + 1,
                                                      traces_.end());
  joining.push_back(traces_.front());
  while (!joining.empty()) {
    std::erase_if(joining,
                  [&](const auto& trace) { return !builder.Offer(trace); });
  }
  Wave wave = std::move(builder).Build();

  std::erase_if(traces_,
                [](const auto& trace) { return trace->all_runs_taken(); });
  std::stable_partition(traces_.begin(), traces_.end(), [&](const auto& trace) {
    return std::none_of(wave.begin(), wave.end(),
                        [&](const WaveEntry& e) { return e.trace == trace; });
  });
  return wave;
}

void RequestQueue::DropOver() {
  std::erase_if(traces_, [](const std::shared_ptr<AcceptedTrace>& trace) {
    trace->stream->FailIfExpired();
    return trace->stream->over();
  });
}

void RequestQueue::TellPositions(int running) const {
  int ahead = running;
  for (const std::shared_ptr<AcceptedTrace>& trace : traces_) {
    // A request that has begun stays at 0.
    if (trace->next_run == 0) trace->stream->SetQueuePosition(ahead);
    ++ahead;
  }
}

}  // namespace phitap
