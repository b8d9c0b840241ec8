// SPDX-License-Identifier: Apache-2.0
#include "server/model/head.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/softmax.h>

#include <cstdint>
#include <utility>

#include "server/model/arithmetic.h"
#include "server/model/line_kernels.h"

namespace phitap {
namespace {

at::Tensor Pick(const at::Tensor& x, const TokenLayout& to,
                const TokenLayout& from, int64_t line_count) {
  if (LineCount(to) == LineCount(from)) return x;
  return GatherLines(x, LinesOf(to, from), line_count);
}

}  // namespace

void Head::Take(Departure departure) {
  if (departure.rows.empty()) return;
  lines_.push_back(std::move(departure.lines));
  for (ActiveRow& row : departure.rows) rows_.push_back(std::move(row));
}

void Head::Finish(const Weights& weights, const Pass& pass) const {
  if (rows_.empty()) return;
  std::vector<RowPositions> norm_rows, head_rows, last_rows;
  std::vector<std::vector<int64_t>> last_positions;
  last_positions.reserve(rows_.size());
  for (const ActiveRow& row : rows_) {
    norm_rows.push_back({row.index, &row.norm_positions});
    if (row.head_positions.empty()) continue;
    head_rows.push_back({row.index, &row.head_positions});
    if (row.head_positions.back() + 1 != row.end_position()) continue;
    last_positions.push_back({row.head_positions.back()});
    last_rows.push_back({row.index, &last_positions.back()});
  }
  const TokenLayout norm_layout = LayOut(norm_rows);
  const TokenLayout head_layout = LayOut(head_rows);
  const TokenLayout last_layout = LayOut(last_rows);
  const auto padded = [&](const TokenLayout& layout) {
    return pass.wave.Padded(LineCount(layout));
  };

  at::Tensor x = lines_.size() == 1 ? lines_.front() : at::cat(lines_);
  if (x.size(0) < padded(norm_layout)) x = PaddedLines(x, padded(norm_layout));
  x = pass.numerics.RmsNorm(x, weights.final_norm, pass.spec.rms_norm_eps);
  x = pass.Show(Hook::kFinalNormOutput, x, norm_layout);  // [T, D]
  if (head_rows.empty()) return;
  x = Pick(x, head_layout, norm_layout, padded(head_layout));
  at::Tensor logits = pass.numerics.Linear(x, weights.head);
  logits = pass.Show(Hook::kLmHeadOutput, logits, head_layout);  // [T, V]
  logits = pass.Show(Hook::kLogits, logits, head_layout);        // [T, V]
  if (last_rows.empty() || !pass.Wants(Hook::kNextTokenProbs)) return;
  const at::Tensor last = GatherLines(logits, LinesOf(last_layout, head_layout),
                                      LineCount(last_layout));
  pass.Show(Hook::kNextTokenProbs, at::softmax(last, -1, at::kFloat),
            last_layout);  // [rows, V]
}

}  // namespace phitap
