// SPDX-License-Identifier: Apache-2.0
#include "server/model/library_attention.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "server/model/key_value_cache.h"

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

// Queries that an edit left without any of the keys they see: the mask's finite
// entries would share their softmax.
at::Tensor LeftBlind(const at::Tensor& scores, const at::Tensor& visible) {
  const at::Tensor cut =
      scores.eq(-std::numeric_limits<double>::infinity()).logical_and(visible);
  return visible.any(-1, /*keepdim=*/true)
      .logical_and(cut.eq(visible).all(-1, /*keepdim=*/true));
}

// Shows a value [1, H, T, K] whose keys begin at `first_key`; hooks see keys
// from 0 on, those that are gone as `unseen`.
at::Tensor ShowPattern(Hook hook, const at::Tensor& value, int64_t first_key,
                       double unseen, const Pass& pass) {
  const ActiveRow& row = pass.wave.rows().front();
  const PatternBlock block{.row = row.index,
                           .first_query = row.first_position(),
                           .query_count = row.token_count()};
  if (!pass.WantsPattern(hook, block)) return value;
  at::Tensor shown = value[0];
  if (first_key > 0) {
    shown = at::constant_pad_nd(shown, {first_key, 0}, unseen);
  }
  return pass.ShowPattern(hook, block, shown)
      .narrow(2, first_key, value.size(3))
      .unsqueeze(0);
}

bool WantsPattern(const Pass& pass) {
  const PatternBlock block{
      .row = pass.wave.rows().front().index,
      .first_query = pass.wave.rows().front().first_position(),
      .query_count = pass.wave.rows().front().token_count()};
  return pass.WantsPattern(Hook::kAttentionScores, block) ||
         pass.WantsPattern(Hook::kAttentionProbabilities, block);
}

// The last `count` positions of [1, KV, positions, E].
at::Tensor Last(const at::Tensor& states, int64_t count) {
  const int64_t kept = std::min(count, states.size(2));
  return states.narrow(2, states.size(2) - kept, kept);
}

}  // namespace

double LibraryAttention::scale() const {
  return std::pow(static_cast<double>(spec_.head_dim), -0.5);
}

at::Tensor LibraryAttention::Attend(const AttentionInputs& inputs,
                                    const Pass& pass) {
  const ActiveRow& row = pass.wave.rows().front();
  Heads heads{.queries = AsHeads(inputs.queries),
              .keys = AsHeads(inputs.keys),
              .values = AsHeads(inputs.values)};
  if (row.ask->cache != nullptr) {
    heads = Update(std::move(heads), row, pass.layer);
  }
  const bool eager = attention_ == ForwardAttention::kEager;
  at::Tensor probabilities;
  if (eager || WantsPattern(pass)) probabilities = Probabilities(heads, pass);
  const at::Tensor mixed =
      eager ? Eager(heads, probabilities) : Sdpa(heads, row);
  const at::Tensor lines = mixed.transpose(1, 2).contiguous()[0];
  return lines.narrow(0, 0, pass.wave.tail_line_count());
}

LibraryAttention::Heads LibraryAttention::Update(Heads own,
                                                 const ActiveRow& row,
                                                 int layer) const {
  CachedStates& cached = row.ask->cache->states(layer);
  TORCH_CHECK(cached.seen == row.first_position(), "the cache has ",
              cached.seen, " positions of this layer, not ",
              row.first_position());
  const auto update = [&](at::Tensor& kept, const at::Tensor& added) {
    const at::Tensor before =
        kept.defined() ? kept : at::empty({0}, added.options());
    const at::Tensor all = at::cat({before, added}, -2);
    kept = spec_.sliding_window ? Last(all, *spec_.sliding_window - 1) : all;
    // A prompt would stay whole behind its last positions.
    if (row.token_count() > 1) kept = kept.contiguous();
    return all;
  };
  own.keys = update(cached.keys, own.keys);
  own.values = update(cached.values, own.values);
  own.first_key = row.end_position() - own.keys.size(2);
  cached.seen = row.end_position();
  row.ask->cache->EndLayer(layer, cached.seen);
  return own;
}

at::Tensor LibraryAttention::Probabilities(const Heads& heads,
                                           const Pass& pass) {
  const ActiveRow& row = pass.wave.rows().front();
  const at::ScalarType dtype = heads.queries.scalar_type();
  const double lowest = LowestOf(dtype);
  const at::Tensor keys = RepeatKv(heads.keys, groups());
  const at::Tensor visible = Visible(heads, row);
  const at::Tensor mask =
      at::where(visible, at::zeros({}, at::TensorOptions(dtype)), lowest);
  const at::Tensor scores =
      at::matmul(heads.queries, keys.transpose(2, 3)) * scale() + mask;
  const at::Tensor edited = ShowPattern(Hook::kAttentionScores, scores,
                                        heads.first_key, lowest, pass);
  const auto softmax = [&](const at::Tensor& x) {
    return at::softmax(x, -1, at::kFloat).to(dtype);
  };
  at::Tensor probabilities;
  if (edited.is_same(scores)) {
    probabilities = softmax(scores);
  } else {
    // Filled on both sides: a softmax of nothing has no gradient.
    const at::Tensor blind = LeftBlind(edited, visible);
    probabilities =
        softmax(edited.masked_fill(blind, 0.0)).masked_fill(blind, 0.0);
  }
  return ShowPattern(Hook::kAttentionProbabilities, probabilities,
                     heads.first_key, 0.0, pass);
}

at::Tensor LibraryAttention::Eager(const Heads& heads,
                                   const at::Tensor& probabilities) const {
  return at::matmul(probabilities, RepeatKv(heads.values, groups()));
}

at::Tensor LibraryAttention::Sdpa(const Heads& heads, const ActiveRow& row) {
  const int64_t count = heads.queries.size(2);
  if (!NeedsMask(heads, row)) {
    return at::scaled_dot_product_attention(
        heads.queries, heads.keys, heads.values, std::nullopt,
        /*dropout_p=*/0.0, /*is_causal=*/count > 1, scale(),
        /*enable_gqa=*/groups() > 1);
  }
  const at::Tensor& visible = Visible(heads, row);
  if (groups() > 1 && count == 1) {
    // One query: a key head's queries stand in for a sequence.
    const at::Tensor packed = heads.queries.reshape(
        {1, spec_.num_kv_heads, groups(), spec_.head_dim});
    return at::scaled_dot_product_attention(packed, heads.keys, heads.values,
                                            visible, 0.0, false, scale())
        .reshape({1, -1, count, spec_.head_dim});
  }
  return at::scaled_dot_product_attention(
      heads.queries, RepeatKv(heads.keys, groups()),
      RepeatKv(heads.values, groups()), visible, 0.0, false, scale());
}

bool LibraryAttention::NeedsMask(const Heads& heads,
                                 const ActiveRow& row) const {
  const int64_t key_count = heads.keys.size(2);
  if (spec_.sliding_window && key_count >= *spec_.sliding_window) return true;
  const auto& hidden = row.ask->hidden_positions;
  if (!hidden.empty() && hidden.front() < row.end_position()) return true;
  // Without one the last query sees every key, and causality is aligned at 0.
  return row.token_count() > 1 && row.token_count() < key_count;
}

const at::Tensor& LibraryAttention::Visible(const Heads& heads,
                                            const ActiveRow& row) {
  if (visible_.defined()) return visible_;
  const at::TensorOptions longs(at::kLong);
  const int64_t end = row.end_position();
  const at::Tensor keys = at::arange(heads.first_key, end, longs);
  const at::Tensor queries =
      at::arange(row.first_position(), end, longs).unsqueeze(1);
  at::Tensor visible = keys <= queries;
  if (spec_.sliding_window) {
    visible = visible & (keys > queries - *spec_.sliding_window);
  }
  if (!row.ask->hidden_positions.empty()) {
    at::Tensor shown = at::ones({end}, at::TensorOptions(at::kBool));
    for (const int64_t position : row.ask->hidden_positions) {
      if (position < end) shown.data_ptr<bool>()[position] = false;
    }
    visible = visible & shown.narrow(0, heads.first_key, keys.size(0));
  }
  visible_ = visible.view({1, 1, row.token_count(), keys.size(0)});
  return visible_;
}

}  // namespace phitap
