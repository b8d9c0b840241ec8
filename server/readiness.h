// Whether the server takes requests, as everybody outside is told.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_READINESS_H_
#define PHITAP_SERVER_READINESS_H_

#include <atomic>
#include <functional>
#include <mutex>

#include "absl/status/status.h"

namespace phitap {

// Ready once, then stopping for good, or stopping at once: a stop that comes as
// the last model is loaded is not followed by word that the server is ready.
// Thread-safe.
class Readiness {
 public:
  // Calls `tell`, which says so; CANCELLED once the server is stopping, and its
  // own errors, after which it is not ready.
  absl::Status Begin(const std::function<absl::Status()>& tell) {
    std::lock_guard lock(mutex_);
    if (stopping_) return absl::CancelledError("the server is stopping");
    ready_ = true;
    absl::Status told = tell();
    if (!told.ok()) ready_ = false;
    return told;
  }

  // Calls `tell`, which says so, once nothing else is being told.
  void End(const std::function<void()>& tell) {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    ready_ = false;
    tell();
  }

  // At any time, also from `tell`.
  bool ready() const { return ready_; }

 private:
  // Held while something is told. Guards stopping_.
  std::mutex mutex_;
  bool stopping_ = false;
  std::atomic<bool> ready_ = false;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_READINESS_H_
