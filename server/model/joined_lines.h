// The lines of a wave that rows have joined behind a layer.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_MODEL_JOINED_LINES_H_
#define PHITAP_SERVER_MODEL_JOINED_LINES_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "server/model/hooks.h"
#include "server/model/row_tree.h"

namespace phitap {

struct WaveLines {
  const at::Tensor& lines;  // [T, D]
  const TokenLayout& layout;
};

// The residual stream behind `layer`: the lines of rows that `from` has are
// theirs, those of rows that only `to` has are their parents'; then zeros up to
// `line_count` lines. Throws c10::Error where a parent does not have a line.
at::Tensor JoinLines(const WaveLines& from, const TokenLayout& to,
                     const RowTree& tree, int layer, int64_t line_count);

}  // namespace phitap

#endif  // PHITAP_SERVER_MODEL_JOINED_LINES_H_
