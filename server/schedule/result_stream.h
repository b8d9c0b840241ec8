// Hands the values of one request from the compute thread to whoever sends
// them.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_SCHEDULE_RESULT_STREAM_H_
#define PHITAP_SERVER_SCHEDULE_RESULT_STREAM_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/base/clock.h"
#include "server/plan/executor.h"
#include "server/schedule/byte_budget.h"

namespace phitap {

// A value; `tensor` indexes TracePlan::tensors.
struct TensorReady {
  int tensor = 0;
  HostTensor value;
};

// Where the request stands; only if the plan asks for it. Older ones are
// dropped for newer ones.
struct ProgressMade {
  // Requests ahead of it; 0 once it runs.
  int queue_position = 0;
  int layers_done = 0;
  int layers_total = 0;
};

// Every run has ended. The last event.
struct TraceFinished {
  std::vector<absl::Status> run_statuses;
  absl::Duration queue_time;
  absl::Duration compute_time;
  int64_t token_layers_computed = 0;
};

// The whole request was given up. The last event; what was not read before it
// is dropped.
struct TraceFailed {
  absl::Status status;
};

using StreamEvent =
    std::variant<TensorReady, ProgressMade, TraceFinished, TraceFailed>;

struct ResultStreamOptions {
  std::shared_ptr<const TracePlan> plan;
  // When the request is given up.
  absl::Time deadline = absl::InfiniteFuture();
  // Outlives the stream.
  const Clock* clock = nullptr;
  // Called when there is an event after Pull had none, by whoever made it (the
  // compute thread, mostly): must return at once and not call back.
  std::function<void()> wake;
  // Share of the budget that holds the plan's bytes.
  ByteBudget::Reservation reservation;
};

// Holds at most the plan's bytes: each tensor comes once. Thread-safe; the
// compute side never waits for the reader.
class ResultStream final : public ResultSink {
 public:
  explicit ResultStream(ResultStreamOptions options);

  // Compute side.
  bool Cancelled(int run) const override;
  void Deliver(int tensor, HostTensor value) override;
  void LayerDone(int run, int64_t token_count) override;
  void DeliverToken(const GeneratedToken& token) override;
  // Requests ahead of this one, for progress.
  void SetQueuePosition(int position);
  // Ends `run`. One that is OK but lacks values becomes INTERNAL. The first
  // call for a run counts.
  void EndRun(int run, absl::Status status);
  // Ends the request after its last run.
  void Finish(absl::Duration queue_time, absl::Duration compute_time);

  // Either side. Gives the request up: no effect after Fail, after Close, or
  // once the last event has been read.
  void Fail(absl::Status status);
  // Fails with DEADLINE_EXCEEDED if the deadline has passed.
  void FailIfExpired();
  // Whether no one computes or reads any more.
  bool over() const;
  // Whether Fail had an effect.
  bool failed() const;

  // Reader. The next event; none if it has not been made yet, and then `wake`
  // will be called.
  std::optional<StreamEvent> Pull();
  // Returns `bytes` of the reservation: they have left the server.
  void ReleaseBytes(int64_t bytes);
  // Cancels what is not computed, drops what is not read.
  void Close();

 private:
  enum class State { kOpen, kFinished, kFailed, kClosed };

  // Runs `change` under the lock and wakes the reader where it waits.
  template <typename Change>
  void Publish(Change change);
  bool HasEvent() const;
  std::deque<TensorReady> DropUnread();
  ProgressMade CurrentProgress() const;

  const std::shared_ptr<const TracePlan> plan_;
  const absl::Time deadline_;
  const Clock* const clock_;
  const std::function<void()> wake_;

  mutable std::mutex mutex_;  // Guards all below.
  State state_ = State::kOpen;
  ByteBudget::Reservation reservation_;
  std::deque<TensorReady> tensors_;
  std::vector<bool> delivered_;
  std::vector<std::optional<absl::Status>> run_statuses_;
  bool progress_changed_ = false;
  int queue_position_ = -1;  // Not told yet.
  int layers_done_ = 0;
  int64_t token_layers_ = 0;
  // The last event, until it is read.
  std::optional<StreamEvent> last_;
  bool reader_waits_ = false;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_SCHEDULE_RESULT_STREAM_H_
