// Time that tests can set.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_BASE_CLOCK_H_
#define PHITAP_SERVER_BASE_CLOCK_H_

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace phitap {

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual absl::Time Now() const = 0;
};

class SystemClock final : public Clock {
 public:
  absl::Time Now() const override { return absl::Now(); }
};

}  // namespace phitap

#endif  // PHITAP_SERVER_BASE_CLOCK_H_
