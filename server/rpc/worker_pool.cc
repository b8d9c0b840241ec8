#include "server/rpc/worker_pool.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/refusal_reason.h"

namespace phitap {

WorkerPool::WorkerPool(WorkerPoolOptions options)
    : max_waiting_(options.max_waiting) {
  for (int i = 0; i < options.thread_count; ++i) {
    threads_.emplace_back([this] { Work(); });
  }
}

WorkerPool::~WorkerPool() { Finish(); }

void WorkerPool::Finish() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void WorkerPool::Post(std::function<void()> task) {
  {
    std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_one();
}

absl::Status WorkerPool::TryPost(std::function<void()> task) {
  {
    std::lock_guard lock(mutex_);
    if (static_cast<int>(tasks_.size()) >= max_waiting_) {
      return WithRefusalReason(
          absl::UnavailableError(absl::StrCat(
              "the server is busy: ", tasks_.size(), " of at most ",
              max_waiting_, " calls are waiting; try again later")),
          RefusalReason::kPlanningBacklog);
    }
    tasks_.push_back(std::move(task));
  }
  changed_.notify_one();
  return absl::OkStatus();
}

void WorkerPool::Work() {
  for (;;) {
    std::function<void()> task;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopping_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace phitap
