// Work of other threads that the compute thread does between two steps.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_SCHEDULE_ERRANDS_H_
#define PHITAP_SERVER_SCHEDULE_ERRANDS_H_

#include <condition_variable>
#include <functional>
#include <mutex>
#include <vector>

#include "absl/status/status.h"

namespace phitap {

// Thread-safe.
class Errands {
 public:
  // `on_new` wakes the compute thread.
  explicit Errands(std::function<void()> on_new) : on_new_(std::move(on_new)) {}

  // Blocks until the compute thread has run `task`. CANCELLED, without it, once
  // that thread has ended.
  absl::Status Run(std::function<void()> task);

  // For the compute thread.
  bool empty() const;
  void RunAll();
  // RunAll, and refuses from now on.
  void Close();

 private:
  struct Errand {
    std::function<void()> task;
    bool done = false;
  };

  std::vector<Errand*> TakeAll();

  const std::function<void()> on_new_;
  mutable std::mutex mutex_;
  // Of threads that wait in Run.
  std::vector<Errand*> waiting_;
  bool closed_ = false;
  std::condition_variable done_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_SCHEDULE_ERRANDS_H_
