// SPDX-License-Identifier: Apache-2.0
#include "server/model/library_attention.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <limits>
#include <optional>

namespace phitap {
namespace {

// [1, KV, T, E] → [1, KV·groups, T, E]
at::Tensor RepeatKv(const at::Tensor& x, int64_t groups) {
  if (groups == 1) return x;
  const int64_t heads = x.size(1);
  return x.unsqueeze(2)
      .expand({1, heads, groups, x.size(2), x.size(3)})
      .reshape({1, heads * groups, x.size(2), x.size(3)});
}

double LowestOf(at::ScalarType dtype) {
  switch (dtype) {
    case at::kHalf:
      return std::numeric_limits<c10::Half>::lowest();
    case at::kBFloat16:
      return std::numeric_limits<c10::BFloat16>::lowest();
    default:
      return std::numeric_limits<float>::lowest();
  }
}

at::Tensor AsHeads(const at::Tensor& lines) {
  return lines.transpose(0, 1).unsqueeze(0);
}

PatternBlock WholeBlock(const ActiveRow& row) {
  return {.row = row.index, .query_count = row.token_count()};
}

}  // namespace

double LibraryAttention::scale() const {
  return std::pow(static_cast<double>(spec_.head_dim), -0.5);
}

at::Tensor LibraryAttention::Attend(const AttentionInputs& inputs,
                                    const Pass& pass) {
  const ActiveRow& row = pass.wave.rows().front();
  const Heads heads{.queries = AsHeads(inputs.queries),
                    .keys = AsHeads(inputs.keys),
                    .values = AsHeads(inputs.values)};
  const PatternBlock block = WholeBlock(row);
  const bool eager = attention_ == ForwardAttention::kEager;
  at::Tensor probabilities;
  if (eager || pass.WantsPattern(Hook::kAttentionScores, block) ||
      pass.WantsPattern(Hook::kAttentionProbabilities, block)) {
    probabilities = Probabilities(heads, pass);
  }
  const at::Tensor mixed =
      eager ? Eager(heads, probabilities) : Sdpa(heads, *row.ask);
  const at::Tensor lines = mixed.transpose(1, 2).contiguous()[0];
  return lines.narrow(0, 0, pass.wave.tail_line_count());
}

at::Tensor LibraryAttention::Probabilities(const Heads& heads,
                                           const Pass& pass) {
  const ActiveRow& row = pass.wave.rows().front();
  const at::ScalarType dtype = heads.queries.scalar_type();
  const at::Tensor keys = RepeatKv(heads.keys, groups());
  const at::Tensor mask =
      at::where(Visible(*row.ask), at::zeros({}, at::TensorOptions(dtype)),
                LowestOf(dtype));
  at::Tensor scores =
      at::matmul(heads.queries, keys.transpose(2, 3)) * scale() + mask;
  scores = pass.ShowPattern(Hook::kAttentionScores, WholeBlock(row), scores[0]);
  const at::Tensor probabilities =
      at::softmax(scores.unsqueeze(0), -1, at::kFloat).to(dtype);
  return pass
      .ShowPattern(Hook::kAttentionProbabilities, WholeBlock(row),
                   probabilities[0])
      .unsqueeze(0);
}

at::Tensor LibraryAttention::Eager(const Heads& heads,
                                   const at::Tensor& probabilities) const {
  return at::matmul(probabilities, RepeatKv(heads.values, groups()));
}

at::Tensor LibraryAttention::Sdpa(const Heads& heads, const ForwardRow& row) {
  const int64_t count = heads.queries.size(2);
  const bool masked = !row.hidden_positions.empty() ||
                      count >= spec_.sliding_window.value_or(
                                   std::numeric_limits<int64_t>::max());
  if (!masked) {
    return at::scaled_dot_product_attention(
        heads.queries, heads.keys, heads.values, std::nullopt,
        /*dropout_p=*/0.0, /*is_causal=*/count > 1, scale(),
        /*enable_gqa=*/groups() > 1);
  }
  if (groups() > 1 && count == 1) {
    // One query: a key head's queries stand in for a sequence.
    const at::Tensor packed = heads.queries.reshape(
        {1, spec_.num_kv_heads, groups(), spec_.head_dim});
    return at::scaled_dot_product_attention(packed, heads.keys, heads.values,
                                            Visible(row), 0.0, false, scale())
        .reshape({1, -1, count, spec_.head_dim});
  }
  return at::scaled_dot_product_attention(
      heads.queries, RepeatKv(heads.keys, groups()),
      RepeatKv(heads.values, groups()), Visible(row), 0.0, false, scale());
}

const at::Tensor& LibraryAttention::Visible(const ForwardRow& row) {
  if (visible_.defined()) return visible_;
  const auto count = static_cast<int64_t>(row.ids.size());
  const at::Tensor keys = at::arange(count, at::TensorOptions(at::kLong));
  const at::Tensor queries = keys.unsqueeze(1);
  at::Tensor visible = keys <= queries;
  if (spec_.sliding_window) {
    visible = visible & (keys > queries - *spec_.sliding_window);
  }
  if (!row.hidden_positions.empty()) {
    at::Tensor shown = at::ones({count}, at::TensorOptions(at::kBool));
    for (const int64_t position : row.hidden_positions) {
      shown.data_ptr<bool>()[position] = false;
    }
    visible = visible & shown;
  }
  visible_ = visible.view({1, 1, count, count});
  return visible_;
}

}  // namespace phitap
