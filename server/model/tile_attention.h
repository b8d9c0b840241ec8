// Attention in canonical tiles: the calls for a query depend on its position
// alone, so its bits do not depend on the prompt's length, nor on which
// positions were computed before, nor on the neighbours.
//
//   tile t:  32 queries at [32t, 32t + 32), zeros where the row has none,
//            against the keys and values that the window leaves them, in whole
//            tiles up to 32t + 32, in a call of its own
//
// A row that has a parent attends to the parent's keys and values before its
// first position: they stay where they are, and its own are laid over what
// follows them (see KeyBoard).
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
#include "server/model/wave.h"
#include "server/model/wave_keys.h"
#include "server/spec/model_spec.h"

namespace phitap {

// Serves the layers of one forward in turn; not thread-safe.
class TileAttention {
 public:
  TileAttention(const ModelSpec& spec, ForwardAttention attention)
      : spec_(spec), attention_(attention), keys_(spec) {}

  // See Arithmetic.
  at::Tensor Attend(const AttentionInputs& inputs, const Pass& pass);
  void PassOver(const Pass& pass);
  void EndLayer(const Wave& wave);

 private:
  using Masks = std::map<int64_t, TileMask>;  // by tile
  // A row's queries and the keys that they see.
  struct RowAttention {
    const ActiveRow& row;
    at::Tensor queries;  // [T of the row, H, E]
    const KeyTiles& keys;
    // Its lines in the tail.
    const TokenLayout::Row& needed;
  };

  void AttendRow(const RowAttention& attention, const Pass& pass,
                 at::Tensor& out);
  AttentionTile MakeTile(const RowAttention& attention, int64_t index);
  const TileMask& MaskOf(const ActiveRow& row, int64_t index,
                         at::ScalarType dtype);

  const ModelSpec& spec_;
  const ForwardAttention attention_;
  WaveKeys keys_;
  std::map<int, Masks> masks_;     // by the caller's index
  std::optional<BandMasks> band_;  // of rows that hide no key
};

}  // namespace phitap

#endif  // PHITAP_SERVER_MODEL_TILE_ATTENTION_H_
