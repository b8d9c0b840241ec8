// Accepted requests that still have something to compute, and what of them
// goes into the next wave.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_SCHEDULE_REQUEST_QUEUE_H_
#define PHITAP_SERVER_SCHEDULE_REQUEST_QUEUE_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/plan/executor.h"
#include "server/plan/trace_plan.h"
#include "server/schedule/byte_budget.h"
#include "server/schedule/group_order.h"
#include "server/schedule/result_stream.h"

namespace phitap {

// A request on its way through the scheduler. But for `begun`, the compute
// thread's once it has been accepted; destroyed on that thread, where the
// memory must be freed.
struct AcceptedTrace {
  explicit AcceptedTrace(std::shared_ptr<const TracePlan> accepted)
      : plan(std::move(accepted)), groups(plan) {}

  const std::shared_ptr<const TracePlan> plan;
  std::shared_ptr<ResultStream> stream;
  absl::Time accepted_at;
  // Whether a pass of it has been taken.
  bool begun = false;
  // When its first wave began.
  absl::Time started_at = absl::InfiniteFuture();
  absl::Duration compute_time;
  GroupOrder groups;
  // The plan's working bytes, for as long as `memory` lives.
  ByteBudget::Reservation working_bytes;
  std::shared_ptr<TraceMemory> memory;
};

struct WaveEntry {
  std::shared_ptr<AcceptedTrace> trace;
  GroupPass pass;
};
using Wave = std::vector<WaveEntry>;

// Bounded. Thread-compatible.
class RequestQueue {
 public:
  explicit RequestQueue(int max_requests) : max_requests_(max_requests) {}

  // UNAVAILABLE, with how many are queued and the bound, if it is full.
  absl::Status Push(std::shared_ptr<AcceptedTrace> trace);

  // Takes the group passes of the next wave: of one model, numerics and
  // attention, at most `max_tokens` tokens (a larger pass goes alone). The
  // request that waited longest leads; the others join pass by pass in turn.
  // Passes in kTransformers and gradients go alone; those of an `isolate`
  // request only with their own kind. A request that took part goes behind
  // those that did not, so each leads soon; one of which nothing is ready any
  // more is no longer queued. Empty if nothing is queued.
  Wave TakeWave(int64_t max_tokens);

  // Queues the wave's requests of which something is ready again, behind those
  // that wait, unless they are over. They have been accepted: never refuses.
  void PutBack(const Wave& wave);

  // Removes the requests whose stream is over or past its deadline.
  void DropOver();
  // Those that were removed so, to be destroyed.
  std::vector<std::shared_ptr<AcceptedTrace>> TakeDropped() {
    return std::exchange(dropped_, {});
  }

  int size() const { return static_cast<int>(traces_.size()); }
  bool Holds(const AcceptedTrace& trace) const;
  // Tells each request how many are ahead of it: `running` and those before
  // it in the queue.
  void TellPositions(int running) const;

 private:
  const int max_requests_;
  // Something of each is ready.
  std::deque<std::shared_ptr<AcceptedTrace>> traces_;
  std::vector<std::shared_ptr<AcceptedTrace>> dropped_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_SCHEDULE_REQUEST_QUEUE_H_
