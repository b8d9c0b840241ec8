// SPDX-License-Identifier: Apache-2.0
#include "server/model/visibility.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>

namespace phitap {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

}  // namespace

int64_t Visibility::FirstKey(int64_t query) const {
  return std::max<int64_t>(0, query - window_ + 1);
}

bool Visibility::Sees(int64_t query, int64_t key) const {
  return FirstKey(query) <= key && key <= query &&
         !std::binary_search(hidden_.begin(), hidden_.end(), key);
}

TileMask MakeTileMask(const Visibility& visibility, int64_t tile,
                      at::ScalarType dtype) {
  const int64_t first_query = tile * kTileLines;
  const int64_t key_count = first_query + kTileLines;
  TileMask mask{.invisible = at::empty({kTileLines, key_count},
                                       at::TensorOptions(at::kBool))};
  bool* invisible = mask.invisible.data_ptr<bool>();
  for (int64_t query = 0; query < kTileLines; ++query, invisible += key_count) {
    const int64_t end = first_query + query + 1;
    const int64_t begin = visibility.FirstKey(first_query + query);
    std::fill(invisible, invisible + key_count, true);
    std::fill(invisible + begin, invisible + end, false);
    for (const int64_t key : visibility.hidden()) {
      if (key < key_count) invisible[key] = true;
    }
    bool* const end_of_keys = invisible + key_count;
    if (std::find(invisible + begin, end_of_keys, false) == end_of_keys) {
      mask.blind.push_back(query);
    }
  }
  mask.additive = at::zeros({kTileLines, key_count}, at::TensorOptions(dtype))
                      .masked_fill_(mask.invisible, kMinusInfinity);
  return mask;
}

// Visibility depends on query − key alone, so every tile's mask is the right
// end of the last one's.
BandMasks::BandMasks(std::optional<int64_t> window, int64_t tile_count,
                     at::ScalarType dtype)
    : key_count_(tile_count * kTileLines),
      widest_(MakeTileMask(Visibility(window, {}), tile_count - 1, dtype)) {}

TileMask BandMasks::Tile(int64_t tile) const {
  const int64_t count = (tile + 1) * kTileLines;
  return {.invisible = widest_.invisible.narrow(1, key_count_ - count, count),
          .additive = widest_.additive.narrow(1, key_count_ - count, count)};
}

}  // namespace phitap
