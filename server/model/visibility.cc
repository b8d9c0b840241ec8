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

int64_t Visibility::FirstKeyOfTile(int64_t tile) const {
  return FirstKey(tile * kTileLines) / kTileLines * kTileLines;
}

int64_t Visibility::MostKeysOfATile(int64_t tile_count) const {
  // No later tile is wider than the last whose keys begin at 0.
  const int64_t before = window_ - 1;
  const int64_t widest =
      before / kTileLines + (before % kTileLines == 0 ? 0 : 1);
  return (std::min(tile_count - 1, widest) + 1) * kTileLines;
}

bool Visibility::Sees(int64_t query, int64_t key) const {
  return FirstKey(query) <= key && key <= query &&
         !std::binary_search(hidden_.begin(), hidden_.end(), key);
}

TileMask MakeTileMask(const Visibility& visibility, int64_t tile,
                      at::ScalarType dtype) {
  const int64_t first_query = tile * kTileLines;
  const int64_t first_key = visibility.FirstKeyOfTile(tile);
  const int64_t key_count = first_query + kTileLines - first_key;
  TileMask mask{.invisible = at::empty({kTileLines, key_count},
                                       at::TensorOptions(at::kBool))};
  bool* invisible = mask.invisible.data_ptr<bool>();
  for (int64_t query = 0; query < kTileLines; ++query, invisible += key_count) {
    const int64_t end = first_query + query + 1 - first_key;
    const int64_t begin = visibility.FirstKey(first_query + query) - first_key;
    std::fill(invisible, invisible + key_count, true);
    std::fill(invisible + begin, invisible + end, false);
    for (const int64_t key : visibility.hidden()) {
      if (first_key <= key && key < first_key + key_count) {
        invisible[key - first_key] = true;
      }
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
// end of the widest one's.
BandMasks::BandMasks(std::optional<int64_t> window, int64_t tile_count,
                     at::ScalarType dtype)
    : visibility_(window, {}),
      widest_(MakeTileMask(
          visibility_, visibility_.MostKeysOfATile(tile_count) / kTileLines - 1,
          dtype)) {}

TileMask BandMasks::Tile(int64_t tile) const {
  const int64_t count =
      (tile + 1) * kTileLines - visibility_.FirstKeyOfTile(tile);
  const int64_t hanging = widest_.invisible.size(1) - count;
  return {.invisible = widest_.invisible.narrow(1, hanging, count),
          .additive = widest_.additive.narrow(1, hanging, count)};
}

}  // namespace phitap
