// SPDX-License-Identifier: Apache-2.0
#include "server/model/layered_forward.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "server/model/attention.h"
#include "server/model/key_value_cache.h"
#include "server/model/line_kernels.h"
#include "server/model/mlp.h"
#include "server/model/row_states.h"
#include "server/model/row_tree.h"

namespace phitap {
namespace {

// One int64 a line: `of(row, position)`, 0 for padding.
template <typename Of>
at::Tensor PerToken(const Wave& wave, const Of& of) {
  at::Tensor values =
      at::zeros({wave.line_count()}, at::TensorOptions(at::kLong));
  int64_t* out = values.data_ptr<int64_t>();
  for (const ActiveRow& row : wave.rows()) {
    for (int64_t i = 0; i < row.token_count(); ++i) *out++ = of(*row.ask, i);
  }
  return values;
}

// Of the row's own positions, as all that it shows.
bool IsHidden(const ForwardRow& row, int64_t token) {
  return std::binary_search(row.hidden_positions.begin(),
                            row.hidden_positions.end(),
                            row.first_position + token);
}

void ShowInputs(const Pass& pass) {
  const Wave& wave = pass.wave;
  if (pass.Wants(Hook::kInputIds)) {
    pass.Show(Hook::kInputIds,
              PerToken(wave, [](const ForwardRow& row, int64_t i) {
                return int64_t{row.ids[i]};
              }));  // [T]
  }
  if (pass.Wants(Hook::kAttentionMask)) {
    pass.Show(Hook::kAttentionMask,
              PerToken(wave, [](const ForwardRow& row, int64_t i) {
                return int64_t{IsHidden(row, i) ? 0 : 1};
              }));  // [T]
  }
  if (pass.Wants(Hook::kInputSize)) {
    const std::vector<int64_t> first = {0};
    std::vector<RowPositions> rows;
    const auto count = static_cast<int64_t>(wave.rows().size());
    at::Tensor sizes = at::ones({count, 2}, at::TensorOptions(at::kLong));
    for (int64_t i = 0; i < count; ++i) {
      rows.push_back({wave.rows()[i].index, &first});
      sizes.data_ptr<int64_t>()[2 * i + 1] = wave.rows()[i].token_count();
    }
    pass.Show(Hook::kInputSize, sizes, LayOut(rows));  // [rows, 2]
  }
}

at::Tensor Embed(const at::Tensor& embedding, const Wave& wave) {
  std::vector<int64_t> ids;
  for (const ActiveRow& row : wave.rows()) {
    ids.insert(ids.end(), row.ask->ids.begin(), row.ask->ids.end());
  }
  return GatherLines(embedding, ids, wave.line_count());
}

std::unique_ptr<Arithmetic> ArithmeticOf(const ForwardModel& model,
                                         const ForwardOptions& options) {
  return options.numerics == ForwardNumerics::kTransformers
             ? MakeLibraryArithmetic(model.spec, options.attention)
             : MakeCausalArithmetic(model.spec, options.attention,
                                    model.row_rule);
}

void CheckCache(const ForwardRow& row, bool has_parent, const ModelSpec& spec) {
  const int64_t held = row.cache == nullptr ? 0 : row.cache->length();
  const int64_t begin = has_parent ? 0 : row.first_position;
  TORCH_CHECK(begin == held, "the row begins at ", begin, ", ", held,
              " positions are cached");
  TORCH_CHECK(row.cache == nullptr || row.layer_count == spec.num_layers,
              "a cache is for all layers");
}

}  // namespace

// Rows go on where their caches end, and leave every layer's keys there; the
// graph of what is recorded would end at a cache.
void CheckAsked(absl::Span<const ForwardRow> rows, const ModelSpec& spec,
                const ForwardOptions& options) {
  const bool causal = options.numerics == ForwardNumerics::kCausal;
  const bool recorded = options.graph == ForwardGraph::kRecorded;
  TORCH_CHECK(!recorded || !causal,
              "only transformers' arithmetic can be recorded");
  const RowTree tree(rows);
  tree.Check();
  for (int i = 0; i < static_cast<int>(rows.size()); ++i) {
    CheckCache(rows[i], tree.HasParent(i), spec);
    TORCH_CHECK(!recorded || rows[i].cache == nullptr, "a cache has no graph");
    TORCH_CHECK(causal || (!tree.HasParent(i) && rows[i].states == nullptr),
                "transformers computes whole rows");
  }
}

LayeredForward::LayeredForward(const ForwardModel& model,
                               absl::Span<const ForwardRow> rows,
                               const std::vector<int>& indices,
                               const ForwardOptions& options, Hooks& hooks)
    : model_(model),
      options_(options),
      numerics_(ArithmeticOf(model, options)),
      wave_(rows, indices, numerics_->wave_options()),
      rotary_(model.rotary, rows, indices,
              model.weights.embedding.scalar_type()),
      pass_{.spec = model.spec,
            .wave = wave_,
            .numerics = *numerics_,
            .hooks = hooks} {}

bool LayeredForward::Step() {
  const at::AutoGradMode grad_mode(options_.graph == ForwardGraph::kRecorded);
  if (!begun_) Begin();
  while (wave_.empty() && !wave_.waiting().empty()) {
    // Nobody computes this layer.
    wave_.BeginLayer(pass_.layer);
    numerics_->PassOver(pass_);
    EndLayer(x_);
  }
  if (!wave_.empty()) {
    wave_.BeginLayer(pass_.layer);
    EndLayer(DecoderLayer(std::exchange(x_, at::Tensor())));
  }
  if (!wave_.empty() || !wave_.waiting().empty()) return true;
  x_ = at::Tensor();
  pass_.layer = -1;
  head_.Finish(model_.weights, pass_);
  return false;
}

void LayeredForward::Begin() {
  begun_ = true;
  if (!wave_.empty()) ShowInputs(pass_);
  x_ = Embed(model_.weights.embedding, wave_);
  if (!wave_.empty()) {
    x_ = pass_.Show(Hook::kTokenEmbeddings, x_);  // [T, D]
    pass_.rotary = rotary_.Tables(wave_.layout(), wave_.line_count());
    pass_.Show(Hook::kRotaryCos, pass_.rotary.cos);  // [T, R]
    pass_.Show(Hook::kRotarySin, pass_.rotary.sin);  // [T, R]
  }
  Leave({});
}

at::Tensor LayeredForward::DecoderLayer(at::Tensor x) {
  const LayerWeights& weights = model_.weights.layers[pass_.layer];
  const double epsilon = pass_.spec.rms_norm_eps;

  x = pass_.Show(Hook::kLayerInput, x);  // [T, D]
  at::Tensor normed = numerics_->RmsNorm(x, weights.input_norm, epsilon);
  normed = pass_.Show(Hook::kAttentionNormOutput, normed);  // [T, D]
  const at::Tensor heads = AttentionHeads(weights, normed, pass_);
  x = wave_.EnterTail(x);
  if (x.size(0) == 0) return x;
  x = x + AttentionOutput(weights, heads, pass_);
  x = pass_.Show(Hook::kLayerMid, x);  // [T, D]

  normed = numerics_->RmsNorm(x, weights.post_attention_norm, epsilon);
  normed = pass_.Show(Hook::kMlpNormOutput, normed);  // [T, D]
  return x + Mlp(weights, normed, pass_);
}

void LayeredForward::EndLayer(const at::Tensor& y) {
  KeepResiduals(y);
  x_ = wave_.Join(pass_.layer, y);
  if (x_.size(0) > 0) x_ = pass_.Show(Hook::kLayerOutput, x_);  // [T, D]
  std::vector<int> dropped;
  if (!wave_.empty()) {
    dropped = pass_.hooks.AfterLayer(pass_.layer, wave_.layout());
  }
  Leave(dropped);
}

void LayeredForward::Leave(const std::vector<int>& dropped) {
  head_.Take(wave_.EndLayer(pass_.layer, dropped, x_));
  numerics_->EndLayer(wave_);
  ++pass_.layer;
  // Rows may have joined or left.
  pass_.rotary = rotary_.Tables(wave_.layout(), wave_.line_count());
}

void LayeredForward::KeepResiduals(const at::Tensor& y) const {
  for (size_t i = 0; i < wave_.rows().size(); ++i) {
    RowStates* const states = wave_.rows()[i].ask->states;
    const TokenLayout::Row& row = wave_.layout().rows[i];
    if (states == nullptr || row.positions.empty()) continue;
    const auto count = static_cast<int64_t>(row.positions.size());
    at::Tensor lines = y.narrow(0, row.begin, count);
    // A view would keep the neighbours' lines and the padding as well.
    if (count < y.size(0)) lines = lines.clone();
    states->residual(pass_.layer) = {.positions = row.positions,
                                     .lines = std::move(lines)};
  }
}

}  // namespace phitap
