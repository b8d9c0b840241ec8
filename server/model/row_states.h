// What one row of a forward leaves for rows of later ones that differ from it
// only in some layers and positions.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_MODEL_ROW_STATES_H_
#define PHITAP_SERVER_MODEL_ROW_STATES_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "server/model/key_tiles.h"
#include "server/spec/model_spec.h"

namespace phitap {

// The residual stream behind a layer, before the edits there.
struct LayerResidual {
  // Ascending; all of the row's but behind its last layer, where they are its
  // tail.
  std::vector<int64_t> positions;
  at::Tensor lines;  // [positions, D], never written
};

// Keys, values and residual streams of the layers that the row computed. Filled
// by the forward that it is given to, then immutable. Not thread-safe.
class RowStates {
 public:
  explicit RowStates(const ModelSpec& spec)
      : keys_(static_cast<size_t>(spec.num_layers)),
        residuals_(static_cast<size_t>(spec.num_layers)) {}

  KeyTiles& keys(int layer) { return keys_.at(layer); }
  const KeyTiles& keys(int layer) const { return keys_.at(layer); }
  LayerResidual& residual(int layer) { return residuals_.at(layer); }
  const LayerResidual& residual(int layer) const {
    return residuals_.at(layer);
  }
  int64_t size_bytes() const;

 private:
  std::vector<KeyTiles> keys_;
  std::vector<LayerResidual> residuals_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_MODEL_ROW_STATES_H_
