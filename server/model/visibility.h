// Which keys a query sees, and the masks that say so to libtorch.
//
//   query i sees key j  iff  i − window < j ≤ i  and j is not hidden
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_MODEL_VISIBILITY_H_
#define PHITAP_SERVER_MODEL_VISIBILITY_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "absl/types/span.h"

namespace phitap {

// Queries of a tile; tile t holds those at positions [32t, 32t + 32) and its
// keys are [FirstKeyOfTile(t), 32t + 32).
inline constexpr int64_t kTileLines = 32;

// Tiles that hold the positions [0, end).
inline int64_t TileCount(int64_t end) {
  return (end + kTileLines - 1) / kTileLines;
}

class Visibility {
 public:
  // `hidden` ascends and outlives this.
  Visibility(std::optional<int64_t> window, absl::Span<const int64_t> hidden)
      : window_(window.value_or(std::numeric_limits<int64_t>::max())),
        hidden_(hidden) {}

  bool Sees(int64_t query, int64_t key) const;
  // Of the window, hidden or not; the last is the query's own.
  int64_t FirstKey(int64_t query) const;
  // Of the tile's queries, rounded down to whole tiles.
  int64_t FirstKeyOfTile(int64_t tile) const;
  // Keys of the widest of tiles 0, 1, …, tile_count − 1.
  int64_t MostKeysOfATile(int64_t tile_count) const;
  // Keys that no query sees, ascending.
  absl::Span<const int64_t> hidden() const { return hidden_; }

 private:
  int64_t window_;
  absl::Span<const int64_t> hidden_;
};

struct TileMask {
  at::Tensor invisible;  // bool [32, keys of the tile]
  at::Tensor additive;  // [32, keys of the tile] in the model's dtype: 0 or −∞
  // Queries of the tile that see no key at all.
  std::vector<int64_t> blind;
};

// The masks of all tiles of rows that hide no key: views of one band.
class BandMasks {
 public:
  BandMasks(std::optional<int64_t> window, int64_t tile_count,
            at::ScalarType dtype);
  TileMask Tile(int64_t tile) const;

 private:
  const Visibility visibility_;
  TileMask widest_;
};

// The mask of one tile, whatever its row hides.
TileMask MakeTileMask(const Visibility& visibility, int64_t tile,
                      at::ScalarType dtype);

}  // namespace phitap

#endif  // PHITAP_SERVER_MODEL_VISIBILITY_H_
