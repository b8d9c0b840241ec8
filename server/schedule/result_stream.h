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

// A token that a run went on with, in order with the tensors.
struct TokenMade {
  GeneratedToken token;
};

// Where the request stands; only if the plan asks for it. Older ones are
// dropped for newer ones.
struct ProgressMade {
  // Requests ahead of it; 0 once it runs.
  int queue_position = 0;
  // Over all passes of all runs; how many passes a run that generates will have
  // is known once it has ended, before that the most that there can be count.
  int64_t layers_done = 0;
  int64_t layers_total = 0;
};

// Every run has ended. The last event.
struct TraceFinished {
  // One each for every run of the plan.
  std::vector<absl::Status> run_statuses;
  std::vector<FinishReason> finish_reasons;
  absl::Duration queue_time;
  absl::Duration compute_time;
  int64_t token_layers_computed = 0;
  // When its last value was there.
  absl::Time computed_at;
};

// The whole request was given up, and what was not read before is dropped; or
// every run is OK and a tensor of the request is missing. The last event.
struct TraceFailed {
  absl::Status status;
};

using StreamEvent = std::variant<TensorReady, TokenMade, ProgressMade,
                                 TraceFinished, TraceFailed>;

// Takes a tensor that is kept on the server instead of being sent. Called on
// the compute thread: must return at once.
using KeepTensor =
    std::function<absl::Status(const PlannedTensor&, HostTensor)>;

struct ResultStreamOptions {
  std::shared_ptr<const TracePlan> plan;
  // When the request is given up.
  absl::Time deadline = absl::InfiniteFuture();
  // Outlives the stream.
  const Clock* clock = nullptr;
  // Called when there is an event after Pull had none, by whoever made it (the
  // compute thread, mostly): must return at once and not call back.
  std::function<void()> wake;
  // For tensors with PlannedTensor::kept_as; where it fails, so does the run.
  KeepTensor keep;
  // Share of the budget that holds the plan's bytes.
  ByteBudget::Reservation reservation;
};

// Holds at most the plan's bytes and the tokens that its runs may generate:
// each comes once. Thread-safe; the compute side never waits for the reader.
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
  // Ends `run`. One that is OK but lacks values of its prompt becomes INTERNAL.
  // The first error counts, also after OK.
  void EndRun(int run, absl::Status status,
              FinishReason reason = FinishReason::kNone);
  // What a run has ended with, OK before that; CANCELLED once the request has
  // been given up.
  absl::Status StatusOf(int run) const;
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
  // Why a value may not be delivered as `tensor`.
  absl::Status CheckDelivery(int tensor, const HostTensor& value) const;
  // Of a run, or of the request for tensors of no run (−1).
  std::optional<absl::Status>& OwnerStatus(int run);
  bool OwnerFailed(int run);
  // Counts `error` against the owner of `tensor`; the first error counts.
  void FailOwner(int tensor, absl::Status error);
  std::optional<int> MissingTensor(int run) const;
  std::deque<StreamEvent> DropUnread();
  ProgressMade CurrentProgress() const;

  const std::shared_ptr<const TracePlan> plan_;
  const absl::Time deadline_;
  const Clock* const clock_;
  const std::function<void()> wake_;
  const KeepTensor keep_;

  mutable std::mutex mutex_;  // Guards all below.
  State state_ = State::kOpen;
  ByteBudget::Reservation reservation_;
  // Tensors and tokens.
  std::deque<StreamEvent> made_;
  std::vector<bool> delivered_;
  // What each run has ended with, and the request for tensors of no run.
  std::vector<std::optional<absl::Status>> run_statuses_;
  std::vector<FinishReason> finish_reasons_;
  std::optional<absl::Status> shared_status_;
  // Of each run, and of no run in the last: tensors of the prompt's pass (those
  // of a generated step need not come).
  std::vector<std::vector<int>> due_tensors_;
  bool progress_changed_ = false;
  int queue_position_ = -1;  // Not told yet.
  // Of each run: layers that are still to come at most.
  std::vector<int64_t> layers_left_;
  int64_t layers_done_ = 0;
  int64_t token_layers_ = 0;
  // The last event, until it is read.
  std::optional<StreamEvent> last_;
  bool reader_waits_ = false;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_SCHEDULE_RESULT_STREAM_H_
