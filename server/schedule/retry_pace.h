// How soon a request that was refused may find room.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_SCHEDULE_RETRY_PACE_H_
#define PHITAP_SERVER_SCHEDULE_RETRY_PACE_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "absl/time/time.h"

namespace phitap {

// About the time that the last requests took from acceptance to their end:
// then most of what is here now has made room. Thread-safe; one thread notes.
class RetryPace {
 public:
  // A request ended so long after it was accepted.
  void Note(absl::Duration taken) {
    const int64_t mean = mean_ns_.load();
    mean_ns_ = mean + (absl::ToInt64Nanoseconds(taken) - mean) / kMemory;
  }
  absl::Duration hint() const {
    return std::clamp(absl::Nanoseconds(mean_ns_.load()),
                      absl::Milliseconds(100), absl::Seconds(30));
  }

 private:
  // Requests that the mean goes back over.
  static constexpr int64_t kMemory = 8;
  std::atomic<int64_t> mean_ns_ = absl::ToInt64Nanoseconds(absl::Seconds(1));
};

}  // namespace phitap

#endif  // PHITAP_SERVER_SCHEDULE_RETRY_PACE_H_
