// Accepted requests that still have runs to compute, and what of them goes
// into the next wave.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_SCHEDULE_REQUEST_QUEUE_H_
#define PHITAP_SERVER_SCHEDULE_REQUEST_QUEUE_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/plan/trace_plan.h"
#include "server/schedule/result_stream.h"

namespace phitap {

// A request on its way through the scheduler.
struct AcceptedTrace {
  std::shared_ptr<const TracePlan> plan;
  std::shared_ptr<ResultStream> stream;
  absl::Time accepted_at;
  // When its first wave began.
  absl::Time started_at = absl::InfiniteFuture();
  absl::Duration compute_time;
  // Runs before it are in waves or have been.
  int next_run = 0;
  int ended_runs = 0;

  int run_count() const { return static_cast<int>(plan->runs.size()); }
  bool all_runs_taken() const { return next_run == run_count(); }
};

struct WaveEntry {
  std::shared_ptr<AcceptedTrace> trace;
  int run = 0;
};
using Wave = std::vector<WaveEntry>;

// Bounded. Thread-compatible.
class RequestQueue {
 public:
  explicit RequestQueue(int max_requests) : max_requests_(max_requests) {}

  // UNAVAILABLE, with how many are queued and the bound, if it is full.
  absl::Status Push(std::shared_ptr<AcceptedTrace> trace);

  // Takes the runs of the next wave: of one model, numerics and attention, at
  // most `max_tokens` tokens (a longer run goes alone). The request that
  // waited longest leads; the others join run by run in turn. Runs in
  // kTransformers go alone; those of an `isolate` request only with their
  // own kind. A request that took part goes behind those that did not, so
  // each leads soon. Empty if nothing is queued.
  Wave TakeWave(int64_t max_tokens);

  // Removes the requests whose stream is over or past its deadline.
  void DropOver();

  int size() const { return static_cast<int>(traces_.size()); }
  // Tells each request how many are ahead of it: `running` and those before
  // it in the queue.
  void TellPositions(int running) const;

 private:
  const int max_requests_;
  std::deque<std::shared_ptr<AcceptedTrace>> traces_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_SCHEDULE_REQUEST_QUEUE_H_
