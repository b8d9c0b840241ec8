#include "server/schedule/result_stream.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"

namespace phitap {
namespace {

int64_t GradientLayersOf(const TracePlan& plan, int run) {
  const auto passes =
      std::count_if(plan.gradient_passes.begin(), plan.gradient_passes.end(),
                    [&](const GradientPass& pass) { return pass.run == run; });
  return passes * plan.runs[run].reach.layer_count;
}

// Of each run: layers of all the passes that it can have.
std::vector<int64_t> LayersOf(const TracePlan& plan) {
  std::vector<int64_t> layers;
  for (const PlannedRun& run : plan.runs) {
    // The last token that is generated goes through no layer.
    const int64_t passes =
        run.generation.has_value() ? run.generation->max_tokens : 1;
    layers.push_back(run.reach.layer_count * passes);
  }
  for (size_t run = 0; run < layers.size(); ++run) {
    layers[run] += GradientLayersOf(plan, static_cast<int>(run));
  }
  return layers;
}

}  // namespace

ResultStream::ResultStream(ResultStreamOptions options)
    : plan_(std::move(options.plan)),
      deadline_(options.deadline),
      clock_(options.clock),
      wake_(std::move(options.wake)),
      keep_(std::move(options.keep)),
      reservation_(std::move(options.reservation)),
      delivered_(plan_->tensors.size()),
      run_statuses_(plan_->runs.size()),
      finish_reasons_(plan_->runs.size()),
      due_tensors_(plan_->runs.size() + 1),
      layers_left_(LayersOf(*plan_)) {
  for (size_t i = 0; i < plan_->tensors.size(); ++i) {
    const PlannedTensor& tensor = plan_->tensors[i];
    if (tensor.step > 0) continue;
    due_tensors_[tensor.run < 0 ? plan_->runs.size() : tensor.run].push_back(
        static_cast<int>(i));
  }
}

template <typename Change>
void ResultStream::Publish(Change change) {
  bool wake = false;
  {
    std::lock_guard lock(mutex_);
    if (state_ != State::kOpen) return;
    change();
    wake = reader_waits_ && HasEvent();
    if (wake) reader_waits_ = false;
  }
  if (wake) wake_();
}

bool ResultStream::Cancelled(int run) const {
  {
    std::lock_guard lock(mutex_);
    if (state_ != State::kOpen) return true;
    // A gradient's pass comes after its run has ended well.
    if (run_statuses_[run].has_value() && !run_statuses_[run]->ok())
      return true;
  }
  return clock_->Now() >= deadline_;
}

void ResultStream::Deliver(int tensor, HostTensor value) {
  const PlannedTensor& planned = plan_->tensors[tensor];
  bool keep = false;
  Publish([&] {
    if (OwnerFailed(planned.run)) return;
    absl::Status status = CheckDelivery(tensor, value);
    if (!status.ok()) return FailOwner(tensor, std::move(status));
    delivered_[tensor] = true;
    keep = !planned.kept_as.empty();
    if (keep) return reservation_.Release(planned.size_bytes);
    made_.push_back(TensorReady{.tensor = tensor, .value = std::move(value)});
  });
  if (!keep) return;
  absl::Status kept = keep_(planned, std::move(value));
  if (!kept.ok()) Publish([&] { FailOwner(tensor, std::move(kept)); });
}

absl::Status ResultStream::CheckDelivery(int tensor,
                                         const HostTensor& value) const {
  const int64_t planned_bytes = plan_->tensors[tensor].size_bytes;
  const auto bytes = static_cast<int64_t>(value.bytes.size());
  if (delivered_[tensor]) {
    return absl::InternalError(absl::StrCat("tensor ", tensor, " came twice"));
  }
  if (bytes == planned_bytes) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(
      "tensor ", tensor, " came in another size than planned: ", bytes,
      " bytes for ", planned_bytes));
}

std::optional<absl::Status>& ResultStream::OwnerStatus(int run) {
  return run < 0 ? shared_status_ : run_statuses_[run];
}

bool ResultStream::OwnerFailed(int run) {
  const std::optional<absl::Status>& status = OwnerStatus(run);
  return status.has_value() && !status->ok();
}

void ResultStream::FailOwner(int tensor, absl::Status error) {
  std::optional<absl::Status>& status = OwnerStatus(plan_->tensors[tensor].run);
  if (!status.has_value() || status->ok()) status = std::move(error);
}

void ResultStream::LayerDone(int run, int64_t token_count) {
  Publish([&] {
    ++layers_done_;
    // Rows of a wave that failed are computed again, alone.
    layers_left_[run] = std::max<int64_t>(layers_left_[run] - 1, 0);
    token_layers_ += token_count;
    progress_changed_ = plan_->report_progress;
  });
}

void ResultStream::DeliverToken(const GeneratedToken& token) {
  Publish([&] {
    if (OwnerFailed(token.run)) return;
    made_.push_back(TokenMade{.token = token});
  });
}

void ResultStream::SetQueuePosition(int position) {
  Publish([&] {
    if (position == queue_position_) return;
    queue_position_ = position;
    progress_changed_ = plan_->report_progress;
  });
}

void ResultStream::EndRun(int run, absl::Status status, FinishReason reason) {
  Publish([&] {
    std::optional<absl::Status>& known = run_statuses_[run];
    const std::optional<int> missing = MissingTensor(run);
    if (status.ok() && missing.has_value()) {
      status = absl::InternalError(
          absl::StrCat("tensor ", *missing, " was planned and never came"));
    }
    if (!known.has_value() || known->ok()) known = std::move(status);
    if (known->ok()) finish_reasons_[run] = reason;
    // Its gradients come after it.
    layers_left_[run] =
        std::min(layers_left_[run], GradientLayersOf(*plan_, run));
  });
}

absl::Status ResultStream::StatusOf(int run) const {
  std::lock_guard lock(mutex_);
  if (state_ != State::kOpen) {
    return absl::CancelledError("the request was given up");
  }
  return run_statuses_[run].value_or(absl::OkStatus());
}

std::optional<int> ResultStream::MissingTensor(int run) const {
  const std::vector<int>& due =
      run < 0 ? due_tensors_.back() : due_tensors_[run];
  const auto missing = std::find_if(
      due.begin(), due.end(), [&](int tensor) { return !delivered_[tensor]; });
  if (missing == due.end()) return std::nullopt;
  return *missing;
}

void ResultStream::Finish(absl::Duration queue_time,
                          absl::Duration compute_time) {
  Publish([&] {
    state_ = State::kFinished;
    TraceFinished finished = {.finish_reasons = finish_reasons_,
                              .queue_time = queue_time,
                              .compute_time = compute_time,
                              .token_layers_computed = token_layers_,
                              .computed_at = clock_->Now()};
    bool all_ok = true;
    for (std::optional<absl::Status>& status : run_statuses_) {
      finished.run_statuses.push_back(
          status.value_or(absl::InternalError("the run was never ended")));
      all_ok = all_ok && finished.run_statuses.back().ok();
    }
    // A run's failure says why tensors of no run are missing.
    const std::optional<int> missing = MissingTensor(-1);
    if (all_ok && !shared_status_.has_value() && missing.has_value()) {
      shared_status_ = absl::InternalError(
          absl::StrCat("tensor ", *missing, " was planned and never came"));
    }
    if (all_ok && shared_status_.has_value()) {
      last_ = TraceFailed{.status = *shared_status_};
    } else {
      last_ = std::move(finished);
    }
  });
}

void ResultStream::Fail(absl::Status status) {
  // Freed after the lock: it may be much, and the compute thread may want it.
  std::deque<StreamEvent> dropped;
  bool wake = false;
  {
    std::lock_guard lock(mutex_);
    const bool unread_end = state_ == State::kFinished && last_.has_value();
    if (state_ != State::kOpen && !unread_end) return;
    dropped = DropUnread();
    state_ = State::kFailed;
    last_ = TraceFailed{.status = std::move(status)};
    wake = std::exchange(reader_waits_, false);
  }
  if (wake) wake_();
}

void ResultStream::FailIfExpired() {
  if (clock_->Now() < deadline_) return;
  Fail(
      absl::DeadlineExceededError("the deadline passed before the answer was "
                                  "complete"));
}

bool ResultStream::over() const {
  std::lock_guard lock(mutex_);
  return state_ != State::kOpen;
}

bool ResultStream::failed() const {
  std::lock_guard lock(mutex_);
  return state_ == State::kFailed;
}

std::optional<StreamEvent> ResultStream::Pull() {
  std::lock_guard lock(mutex_);
  if (!HasEvent()) {
    reader_waits_ = state_ == State::kOpen;
    return std::nullopt;
  }
  if (progress_changed_) {
    progress_changed_ = false;
    return CurrentProgress();
  }
  if (!made_.empty()) {
    StreamEvent event = std::move(made_.front());
    made_.pop_front();
    return event;
  }
  return std::exchange(last_, std::nullopt);
}

void ResultStream::ReleaseBytes(int64_t bytes) {
  std::lock_guard lock(mutex_);
  reservation_.Release(bytes);
}

void ResultStream::Close() {
  std::deque<StreamEvent> dropped;
  std::lock_guard lock(mutex_);
  dropped = DropUnread();
  last_.reset();
  reader_waits_ = false;
  state_ = State::kClosed;
}

bool ResultStream::HasEvent() const {
  return progress_changed_ || !made_.empty() || last_.has_value();
}

std::deque<StreamEvent> ResultStream::DropUnread() {
  progress_changed_ = false;
  reservation_.Release(reservation_.bytes());
  return std::exchange(made_, {});
}

ProgressMade ResultStream::CurrentProgress() const {
  return {.queue_position = queue_position_,
          .layers_done = layers_done_,
          .layers_total = std::accumulate(layers_left_.begin(),
                                          layers_left_.end(), layers_done_)};
}

}  // namespace phitap
