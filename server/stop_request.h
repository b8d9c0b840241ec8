// The wish that the server stops: a signal's, an administrator's, or that of a
// start that failed.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_STOP_REQUEST_H_
#define PHITAP_SERVER_STOP_REQUEST_H_

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

namespace phitap {

// Thread-safe.
class StopRequest {
 public:
  // The first reason counts.
  void Ask(std::string reason) {
    {
      std::lock_guard lock(mutex_);
      if (!reason_.has_value()) reason_ = std::move(reason);
    }
    asked_.notify_all();
  }

  // Blocks until somebody has asked. Returns the reason.
  std::string Await() {
    std::unique_lock lock(mutex_);
    asked_.wait(lock, [&] { return reason_.has_value(); });
    return *reason_;
  }

 private:
  std::mutex mutex_;
  std::optional<std::string> reason_;
  std::condition_variable asked_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_STOP_REQUEST_H_
