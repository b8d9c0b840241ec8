// Accepted requests that still have something to compute, and what of them
// goes into the next wave.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_SCHEDULE_REQUEST_QUEUE_H_
#define PHITAP_SERVER_SCHEDULE_REQUEST_QUEUE_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "server/schedule/accepted_trace.h"
#include "server/schedule/deficit_round_robin.h"
#include "server/schedule/wave_builder.h"

namespace phitap {

struct RequestQueueLimits {
  int max_requests = 256;
  // Of one caller; 0 is half of max_requests.
  int max_caller_requests = 0;
};

// Bounded. Callers have equal shares of what is computed (by token-layers: see
// DeficitRoundRobin); a caller's requests go by priority, and take turns within
// one. Thread-compatible.
class RequestQueue {
 public:
  explicit RequestQueue(RequestQueueLimits limits);

  // UNAVAILABLE, with how many are queued and the bound, if it is full or holds
  // as many of the caller as it may.
  absl::Status Push(std::shared_ptr<AcceptedTrace> trace);

  // Takes the passes of the next wave: see WaveBuilder. The caller whose turn
  // it is leads, and the next wave has another leader if there is one. A
  // request that took part goes behind those of its priority that did not; one
  // of which nothing is ready any more is no longer queued. Empty if nothing
  // that is queued fits.
  GatheredWave TakeWave(const WaveLimits& limits);

  // Queues the wave's requests of which something is ready again, behind those
  // that wait, unless they are over. They have been accepted: never refuses.
  void PutBack(const GatheredWave& wave);

  // Removes the requests whose stream is over or past its deadline.
  void DropOver();
  // Those that were removed so, to be destroyed.
  std::vector<std::shared_ptr<AcceptedTrace>> TakeDropped() {
    return std::exchange(dropped_, {});
  }

  int size() const;
  // Requests of each caller that has any.
  std::map<std::string, int> count_by_caller() const;
  bool Holds(const AcceptedTrace& trace) const;
  // Tells each request how many are ahead of it: `running` and those before
  // it if the callers took turns request by request.
  void TellPositions(int running) const;

 private:
  void Insert(std::shared_ptr<AcceptedTrace> trace);
  int CountOf(const std::string& caller) const;
  absl::Status CheckRoom(const std::string& caller) const;
  // Callers of which nothing is queued wait no more.
  void LeaveEmpty();

  const RequestQueueLimits limits_;
  // Something of each is ready; no caller without one.
  std::map<std::string, CallersTraces> callers_;
  // The callers.
  DeficitRoundRobin turns_;
  std::vector<std::shared_ptr<AcceptedTrace>> dropped_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_SCHEDULE_REQUEST_QUEUE_H_
