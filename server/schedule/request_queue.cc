#include "server/schedule/request_queue.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

namespace phitap {
namespace {

// Whether a pass has to be the only one of its wave.
bool NextGoesAlone(const AcceptedTrace& trace) {
  return trace.plan->numerics == Numerics::kTransformers ||
         trace.groups.NextIsGradient();
}

// Whether passes of `trace` may share a wave with those of `leader`.
bool MayJoin(const AcceptedTrace& leader, const AcceptedTrace& trace) {
  if (&leader == &trace) return true;
  const TracePlan& a = *leader.plan;
  const TracePlan& b = *trace.plan;
  return !a.isolate && !b.isolate && a.numerics == b.numerics &&
         a.attention == b.attention && a.model == b.model;
}

// Collects passes until nothing more fits.
class WaveBuilder {
 public:
  WaveBuilder(std::shared_ptr<AcceptedTrace> leader, int64_t max_tokens)
      : leader_(std::move(leader)),
        free_tokens_(max_tokens),
        leader_goes_alone_(NextGoesAlone(*leader_)) {
    Take(leader_);
  }

  // Whether `trace` had a pass that fits.
  bool Offer(const std::shared_ptr<AcceptedTrace>& trace) {
    if (leader_goes_alone_ || !trace->groups.has_ready() ||
        NextGoesAlone(*trace) || !MayJoin(*leader_, *trace) ||
        trace->groups.NextTokenCount() > free_tokens_) {
      return false;
    }
    Take(trace);
    return true;
  }

  Wave Build() && { return std::move(wave_); }

 private:
  void Take(const std::shared_ptr<AcceptedTrace>& trace) {
    free_tokens_ -= trace->groups.NextTokenCount();
    trace->begun = true;
    wave_.push_back({.trace = trace, .pass = trace->groups.TakeNext()});
  }

  const std::shared_ptr<AcceptedTrace> leader_;
  int64_t free_tokens_;
  const bool leader_goes_alone_;
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
                [](const auto& trace) { return !trace->groups.has_ready(); });
  std::stable_partition(traces_.begin(), traces_.end(), [&](const auto& trace) {
    return std::none_of(wave.begin(), wave.end(),
                        [&](const WaveEntry& e) { return e.trace == trace; });
  });
  return wave;
}

void RequestQueue::PutBack(const Wave& wave) {
  for (const WaveEntry& entry : wave) {
    if (!entry.trace->groups.has_ready() || entry.trace->stream->over() ||
        Holds(*entry.trace)) {
      continue;
    }
    traces_.push_back(entry.trace);
  }
}

void RequestQueue::DropOver() {
  const auto over =
      std::stable_partition(traces_.begin(), traces_.end(),
                            [](const std::shared_ptr<AcceptedTrace>& trace) {
                              trace->stream->FailIfExpired();
                              return !trace->stream->over();
                            });
  dropped_.insert(dropped_.end(), std::make_move_iterator(over),
                  std::make_move_iterator(traces_.end()));
  traces_.erase(over, traces_.end());
}

bool RequestQueue::Holds(const AcceptedTrace& trace) const {
  return std::any_of(traces_.begin(), traces_.end(), [&](const auto& queued) {
    return queued.get() == &trace;
  });
}

void RequestQueue::TellPositions(int running) const {
  int ahead = running;
  for (const std::shared_ptr<AcceptedTrace>& trace : traces_) {
    // A request that has begun stays at 0.
    if (!trace->begun) trace->stream->SetQueuePosition(ahead);
    ++ahead;
  }
}

}  // namespace phitap
