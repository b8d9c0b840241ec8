// Attention of one head in bfloat16, on CPUs that multiply pairs of bfloat16
// numbers.
//
//   s = scale · Σ q k, −∞ where the query does not see the key
//   out = Σ e^(s − max s) v / Σ e^(s − max s)
//
// Sums are float32, over keys in their order; e^(s − max s) is rounded to
// bfloat16 for the product with v and not for the sum below it. Keys come in
// blocks of 512 from the first; the sums so far are scaled down where a block
// raises the maximum. A query's bits depend on its own line, the keys that it
// sees and where they stand, and on nothing else: neither on the queries beside
// it nor on how many invisible keys follow.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_MODEL_HEAD_KERNEL_H_
#define PHITAP_SERVER_MODEL_HEAD_KERNEL_H_

#include <c10/util/BFloat16.h>

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

namespace phitap {

// Lines of one head in a matrix: line i begins at first + i · stride.
struct HeadLines {
  const c10::BFloat16* first = nullptr;
  int64_t stride = 0;
};

// What is the same for all tiles of a head.
struct HeadKeys {
  HeadLines keys;
  HeadLines values;
  // Elements of a line.
  int64_t width = 0;
  float scale = 1.0f;
};

// At most 32 queries, which see some of the first `key_count` keys.
struct HeadTile {
  HeadLines queries;
  int64_t query_count = 0;
  // A multiple of 32.
  int64_t key_count = 0;
  // [query_count, key_count], lines invisible_stride apart.
  const bool* invisible = nullptr;
  int64_t invisible_stride = 0;
  // [query_count, width], lines out_stride apart. 0 for queries that see no
  // key.
  c10::BFloat16* out = nullptr;
  int64_t out_stride = 0;
};

// Whether this CPU can; else AttendHead must not be called.
bool HasHeadKernel();

// On the calling thread, in memory that the thread keeps.
void AttendHead(const HeadKeys& head, absl::Span<const HeadTile> tiles);

}  // namespace phitap

#endif  // PHITAP_SERVER_MODEL_HEAD_KERNEL_H_
