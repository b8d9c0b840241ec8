// Picks the asked-for part of a value out of a wave's matrix.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_TRACE_SELECT_H_
#define PHITAP_SERVER_TRACE_SELECT_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "server/model/hooks.h"
#include "server/plan/trace_plan.h"

namespace phitap {

// Whether the indices are first, first + 1, …
bool Consecutive(const std::vector<int64_t>& indices);

// `indices` of `value` along `dimension`: a view where they are first, first +
// 1, …, else a copy.
at::Tensor Pick(const at::Tensor& value, int64_t dimension,
                const std::vector<int64_t>& indices);

// Index of the positions in a value of this hook point as the API shows it; −1
// where it has none.
int64_t SeqDimension(Hook hook);

// The part of lines `lines` of a token-major value [T, ...] that a selection
// keeps besides its positions, with the dimensions in the order of the
// hook-point table. A view where possible.
at::Tensor SelectLines(const at::Tensor& value,
                       const std::vector<int64_t>& lines, Hook hook,
                       const ResolvedSelection& selection);

// The part of a token-major value [T, ...] that a selection keeps of one row.
at::Tensor SelectRow(const at::Tensor& value, const TokenLayout::Row& row,
                     Hook hook, const ResolvedSelection& selection);
inline at::Tensor SelectRow(const at::Tensor& value,
                            const TokenLayout::Row& row,
                            const PlannedCapture& capture) {
  return SelectRow(value, row, capture.point.hook, capture.selection);
}

// Attention scores or probabilities: what comes in blocks of queries.
inline bool IsPattern(Hook hook) {
  return hook == Hook::kAttentionScores ||
         hook == Hook::kAttentionProbabilities;
}

}  // namespace phitap

#endif  // PHITAP_SERVER_TRACE_SELECT_H_
