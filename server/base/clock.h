// Time that tests can set.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_BASE_CLOCK_H_
#define PHITAP_SERVER_BASE_CLOCK_H_

#include <chrono>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace phitap {

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual absl::Time Now() const = 0;
};

// The machine's clock as it was when this one was made, and the time since:
// setting the machine's clock ends nobody's deadline.
class SystemClock final : public Clock {
 public:
  absl::Time Now() const override {
    return started_at_ +
           absl::FromChrono(std::chrono::steady_clock::now() - started_);
  }

 private:
  const absl::Time started_at_ = absl::Now();
  const std::chrono::steady_clock::time_point started_ =
      std::chrono::steady_clock::now();
};

}  // namespace phitap

#endif  // PHITAP_SERVER_BASE_CLOCK_H_
