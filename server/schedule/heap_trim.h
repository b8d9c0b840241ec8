// Gives memory back that the heap holds but nobody uses.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_SCHEDULE_HEAP_TRIM_H_
#define PHITAP_SERVER_SCHEDULE_HEAP_TRIM_H_

#include <functional>

#include "absl/time/time.h"

namespace phitap {

// What is kept of prompts lies in the heap between the values of forwards that
// have long been freed, and few of the holes are ever filled again: without
// this the process grows for hours past what it holds. Thread-compatible.
class HeapTrim {
 public:
  // A trim takes milliseconds, and what is used again costs its pages.
  static constexpr absl::Duration kPause = absl::Seconds(20);

  // `trim` does it; null is the C library's.
  explicit HeapTrim(absl::Time now, std::function<void()> trim = nullptr);

  // Trims if the last time is long enough ago, and says whether it did.
  bool TrimIfDue(absl::Time now);

 private:
  const std::function<void()> trim_;
  absl::Time last_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_SCHEDULE_HEAP_TRIM_H_
