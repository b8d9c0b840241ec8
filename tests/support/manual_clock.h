// A clock that stands still until a test moves it.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_SUPPORT_MANUAL_CLOCK_H_
#define PHITAP_TESTS_SUPPORT_MANUAL_CLOCK_H_

#include <mutex>

#include "absl/time/time.h"
#include "server/base/clock.h"

namespace phitap {

// Thread-safe.
class ManualClock final : public Clock {
 public:
  absl::Time Now() const override {
    std::lock_guard lock(mutex_);
    return now_;
  }
  void Advance(absl::Duration duration) {
    std::lock_guard lock(mutex_);
    now_ += duration;
  }

 private:
  mutable std::mutex mutex_;
  absl::Time now_ = absl::UnixEpoch() + absl::Hours(24);
};

}  // namespace phitap

#endif  // PHITAP_TESTS_SUPPORT_MANUAL_CLOCK_H_
