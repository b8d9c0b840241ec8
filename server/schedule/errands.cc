#include "server/schedule/errands.h"

#include <utility>

namespace phitap {

absl::Status Errands::Run(std::function<void()> task) {
  Errand errand = {.task = std::move(task)};
  {
    std::lock_guard lock(mutex_);
    if (closed_) return absl::CancelledError("the server has stopped");
    waiting_.push_back(&errand);
  }
  on_new_();
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return errand.done; });
  return absl::OkStatus();
}

bool Errands::empty() const {
  std::lock_guard lock(mutex_);
  return waiting_.empty();
}

std::vector<Errands::Errand*> Errands::TakeAll() {
  std::lock_guard lock(mutex_);
  return std::exchange(waiting_, {});
}

void Errands::RunAll() {
  for (Errand* errand : TakeAll()) {
    errand->task();
    std::lock_guard lock(mutex_);
    errand->done = true;
    done_.notify_all();
  }
}

void Errands::Close() {
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
  }
  RunAll();
}

}  // namespace phitap
