// The arithmetic of one canonical tile of attention.
//
//   scores = q kᵀ / √E, −∞ where the query does not see the key
//   probabilities = softmax(scores), 0 where it does not
//   output = probabilities · v
//
// A query that sees no key has probabilities 0 and output 0. A key or value
// that is not finite reaches the queries that see it and no other.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_MODEL_ATTENTION_TILE_H_
#define PHITAP_SERVER_MODEL_ATTENTION_TILE_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "server/model/visibility.h"

namespace phitap {

// H heads in groups of H/KV that share a key/value head.
struct AttentionTile {
  at::Tensor queries;  // [32, H, E]
  at::Tensor keys;     // [KV, keys, E]
  at::Tensor values;   // [KV, keys, E]
  TileMask mask;
  // Keys of the tile whose key or value has a NaN or an infinity, ascending.
  std::vector<int64_t> not_finite;
};

// [H, 32, keys]
at::Tensor Scores(const AttentionTile& tile);
// [H, 32, keys]
at::Tensor Probabilities(const AttentionTile& tile, const at::Tensor& scores);
// probabilities · v: [32, H, E]
at::Tensor Mix(const AttentionTile& tile, const at::Tensor& probabilities);
// The output at once, by the kernel of HasHeadKernel where there is one for the
// dtype, else in libtorch's one call: [32, H, E].
at::Tensor Sdpa(const AttentionTile& tile);

// Consecutive queries of one tile.
struct QueryStretch {
  at::Tensor queries;    // [n, H, E]
  at::Tensor invisible;  // bool [n, keys of the tile]
  at::Tensor out;        // [n, H, E]
};
bool HasStretchSdpa(at::ScalarType dtype);
// Sdpa of such queries with the same bits, in one pass over keys, which are
// finite: those of the last of tiles whose keys begin at the same position.
void SdpaOfStretches(const at::Tensor& keys, const at::Tensor& values,
                     absl::Span<const QueryStretch> stretches);

}  // namespace phitap

#endif  // PHITAP_SERVER_MODEL_ATTENTION_TILE_H_
