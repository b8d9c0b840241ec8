// Attention in canonical tiles: the calls for a query depend on its position
// alone, so its bits do not depend on the prompt's length, nor on which
// positions were computed before, nor on the neighbours.
//
//   tile t:  32 queries at [32t, 32t + 32), zeros where the row has none,
//            against the keys and values that the window leaves them, in whole
//            tiles up to 32t + 32, in a call of its own
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_MODEL_TILE_ATTENTION_H_
#define PHITAP_SERVER_MODEL_TILE_ATTENTION_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <optional>

#include "server/model/arithmetic.h"
#include "server/model/attention_tile.h"
#include "server/model/forward.h"
#include "server/model/key_tiles.h"
#include "server/model/pass.h"
#include "server/model/visibility.h"
#include "server/spec/model_spec.h"

namespace phitap {

// Serves the layers of one forward in turn; not thread-safe.
class TileAttention {
 public:
  TileAttention(const ModelSpec& spec, ForwardAttention attention)
      : spec_(spec), attention_(attention) {}

  // See Arithmetic::Attend.
  at::Tensor Attend(const AttentionInputs& inputs, const Pass& pass);

 private:
  struct RowTiles {
    // Where the row has no cache; each layer fills the same buffers.
    KeyTiles own;
    std::map<int64_t, TileMask> masks;
  };

  KeyTiles& KeysOf(const ActiveRow& row, int layer);
  void AttendRow(size_t row, const AttentionInputs& inputs, const Pass& pass,
                 at::Tensor& out);
  AttentionTile MakeTile(const ActiveRow& row, const at::Tensor& row_queries,
                         int64_t index, const KeyTiles& keys);
  const TileMask& MaskOf(const ActiveRow& row, int64_t index,
                         at::ScalarType dtype);
  Visibility VisibilityOf(const ActiveRow& row) const;

  const ModelSpec& spec_;
  const ForwardAttention attention_;
  std::map<int, RowTiles> rows_;   // by the caller's index
  std::optional<BandMasks> band_;  // of rows that hide no key
};

}  // namespace phitap

#endif  // PHITAP_SERVER_MODEL_TILE_ATTENTION_H_
