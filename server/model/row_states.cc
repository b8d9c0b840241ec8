// SPDX-License-Identifier: Apache-2.0
#include "server/model/row_states.h"

namespace phitap {

int64_t RowStates::size_bytes() const {
  int64_t bytes = 0;
  for (const KeyTiles& keys : keys_) bytes += keys.size_bytes();
  for (const LayerResidual& residual : residuals_) {
    if (!residual.lines.defined()) continue;
    bytes += static_cast<int64_t>(residual.lines.storage().nbytes());
  }
  return bytes;
}

}  // namespace phitap
