#include "server/schedule/result_stream.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace phitap {

ResultStream::ResultStream(ResultStreamOptions options)
    : plan_(std::move(options.plan)),
      deadline_(options.deadline),
      clock_(options.clock),
      wake_(std::move(options.wake)),
      reservation_(std::move(options.reservation)),
      delivered_(plan_->tensors.size()),
      run_statuses_(plan_->runs.size()) {}

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
    if (state_ != State::kOpen || run_statuses_[run].has_value()) return true;
  }
  return clock_->Now() >= deadline_;
}

void ResultStream::Deliver(int tensor, HostTensor value) {
  Publish([&] {
    const PlannedTensor& planned = plan_->tensors[tensor];
    const int64_t bytes = static_cast<int64_t>(value.bytes.size());
    std::optional<absl::Status>& run_status = run_statuses_[planned.run];
    if (run_status.has_value()) return;
    if (delivered_[tensor] || bytes != planned.size_bytes) {
      run_status = absl::InternalError(absl::StrCat(
          "tensor ", tensor, " came ",
          delivered_[tensor] ? "twice" : "in another size than planned: ",
          delivered_[tensor]
              ? ""
              : absl::StrCat(bytes, " bytes for ", planned.size_bytes)));
      return;
    }
    delivered_[tensor] = true;
    tensors_.push_back({.tensor = tensor, .value = std::move(value)});
  });
}

void ResultStream::LayerDone(int /*run*/, int64_t token_count) {
  Publish([&] {
    ++layers_done_;
    token_layers_ += token_count;
    progress_changed_ = plan_->report_progress;
  });
}

void ResultStream::DeliverToken(const GeneratedToken& /*token*/) {}

void ResultStream::SetQueuePosition(int position) {
  Publish([&] {
    if (position == queue_position_) return;
    queue_position_ = position;
    progress_changed_ = plan_->report_progress;
  });
}

void ResultStream::EndRun(int run, absl::Status status) {
  Publish([&] {
    if (run_statuses_[run].has_value()) return;
    if (status.ok()) {
      for (size_t i = 0; i < delivered_.size(); ++i) {
        if (plan_->tensors[i].run != run || delivered_[i]) continue;
        status = absl::InternalError(
            absl::StrCat("tensor ", i, " was planned and never came"));
        break;
      }
    }
    run_statuses_[run] = std::move(status);
  });
}

void ResultStream::Finish(absl::Duration queue_time,
                          absl::Duration compute_time) {
  Publish([&] {
    TraceFinished finished = {.queue_time = queue_time,
                              .compute_time = compute_time,
                              .token_layers_computed = token_layers_};
    for (std::optional<absl::Status>& status : run_statuses_) {
      finished.run_statuses.push_back(
          status.value_or(absl::InternalError("the run was never ended")));
    }
    state_ = State::kFinished;
    last_ = std::move(finished);
  });
}

void ResultStream::Fail(absl::Status status) {
  // Freed after the lock: it may be much, and the compute thread may want it.
  std::deque<TensorReady> dropped;
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
  if (!tensors_.empty()) {
    StreamEvent event = std::move(tensors_.front());
    tensors_.pop_front();
    return event;
  }
  return std::exchange(last_, std::nullopt);
}

void ResultStream::ReleaseBytes(int64_t bytes) {
  std::lock_guard lock(mutex_);
  reservation_.Release(bytes);
}

void ResultStream::Close() {
  std::deque<TensorReady> dropped;
  std::lock_guard lock(mutex_);
  dropped = DropUnread();
  last_.reset();
  reader_waits_ = false;
  state_ = State::kClosed;
}

bool ResultStream::HasEvent() const {
  return progress_changed_ || !tensors_.empty() || last_.has_value();
}

std::deque<TensorReady> ResultStream::DropUnread() {
  progress_changed_ = false;
  reservation_.Release(reservation_.bytes());
  return std::exchange(tensors_, {});
}

ProgressMade ResultStream::CurrentProgress() const {
  int layers_total = 0;
  for (const PlannedRun& run : plan_->runs) {
    layers_total += run.reach.layer_count;
  }
  return {.queue_position = queue_position_,
          .layers_done = layers_done_,
          .layers_total = layers_total};
}

}  // namespace phitap
