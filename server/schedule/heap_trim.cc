// SPDX-License-Identifier: Apache-2.0
#include "server/schedule/heap_trim.h"

#include <malloc.h>

#include <utility>

namespace phitap {
namespace {

// Of all threads' parts of it.
void TrimHeap() { malloc_trim(/*pad=*/0); }

}  // namespace

HeapTrim::HeapTrim(absl::Time now, std::function<void()> trim)
    : trim_(trim == nullptr ? TrimHeap : std::move(trim)), last_(now) {}

bool HeapTrim::TrimIfDue(absl::Time now) {
  if (now - last_ < kPause) return false;
  last_ = now;
  trim_();
  return true;
}

}  // namespace phitap
