// A few threads for work that must run neither in a gRPC callback nor on the
// compute thread.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_RPC_WORKER_POOL_H_
#define PHITAP_SERVER_RPC_WORKER_POOL_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/status.h"

namespace phitap {

struct WorkerPoolOptions {
  int thread_count = 2;
  // Tasks that wait; TryPost refuses more.
  int max_waiting = 4096;
};

// Thread-safe. Tasks start in the order in which they were posted.
class WorkerPool {
 public:
  explicit WorkerPool(WorkerPoolOptions options);
  // Finishes.
  ~WorkerPool();

  // For work whose amount is bounded elsewhere.
  void Post(std::function<void()> task);
  // UNAVAILABLE, with how many wait and the bound, if too many do.
  absl::Status TryPost(std::function<void()> task);
  // Blocks until every posted task has run; those that are posted afterwards
  // never do. By one thread.
  void Finish();

 private:
  void Work();

  const int max_waiting_;
  std::mutex mutex_;  // Guards the next two.
  std::deque<std::function<void()>> tasks_;
  bool stopping_ = false;
  std::condition_variable changed_;
  std::vector<std::thread> threads_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_RPC_WORKER_POOL_H_
