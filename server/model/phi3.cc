// SPDX-License-Identifier: Apache-2.0
#include "server/model/phi3.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "absl/time/time.h"
#include "server/model/arithmetic.h"
#include "server/model/attention.h"
#include "server/model/head.h"
#include "server/model/key_value_cache.h"
#include "server/model/line_kernels.h"
#include "server/model/mlp.h"
#include "server/model/pass.h"
#include "server/model/rotary.h"
#include "server/model/torch_guard.h"
#include "server/model/wave.h"
#include "server/model/weights.h"

namespace phitap {
namespace {

constexpr absl::Duration kRowRuleBudget = absl::Milliseconds(700);

// h = x + attention(norm(x));  y = h + mlp(norm(h))
at::Tensor DecoderLayer(const LayerWeights& weights, at::Tensor x,
                        const Pass& pass) {
  const Arithmetic& numerics = pass.numerics;
  const double epsilon = pass.spec.rms_norm_eps;

  x = pass.Show(Hook::kLayerInput, x);  // [T, D]
  at::Tensor normed = numerics.RmsNorm(x, weights.input_norm, epsilon);
  normed = pass.Show(Hook::kAttentionNormOutput, normed);  // [T, D]
  const at::Tensor heads = AttentionHeads(weights, normed, pass);
  x = pass.wave.EnterTail(x);
  if (x.size(0) == 0) return x;  // nobody asked for more than keys and values
  x = x + AttentionOutput(weights, heads, pass);
  x = pass.Show(Hook::kLayerMid, x);  // [T, D]

  normed = numerics.RmsNorm(x, weights.post_attention_norm, epsilon);
  normed = pass.Show(Hook::kMlpNormOutput, normed);  // [T, D]
  x = x + Mlp(weights, normed, pass);
  return pass.Show(Hook::kLayerOutput, x);  // [T, D]
}

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

// Rows go on where their caches end, and leave every layer's keys there; the
// graph of what is recorded would end at a cache.
void CheckAsked(absl::Span<const ForwardRow> rows, const ModelSpec& spec,
                const ForwardOptions& options) {
  TORCH_CHECK(options.graph == ForwardGraph::kNone ||
                  options.numerics == ForwardNumerics::kTransformers,
              "only transformers' arithmetic can be recorded");
  for (const ForwardRow& row : rows) {
    const int64_t held = row.cache == nullptr ? 0 : row.cache->length();
    TORCH_CHECK(row.first_position == held, "the row begins at ",
                row.first_position, ", ", held, " positions are cached");
    TORCH_CHECK(row.cache == nullptr || (row.layer_count == spec.num_layers &&
                                         options.graph == ForwardGraph::kNone),
                "a cache is for all layers and no graph");
  }
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

RotaryTables RotaryOf(const Wave& wave, const Rotary& rotary,
                      at::ScalarType dtype) {
  std::vector<RotaryToken> tokens;
  for (const ActiveRow& row : wave.rows()) {
    const auto& positions = row.ask->position_ids;
    const bool long_factors = rotary.TakesLongFactors(
        *std::max_element(positions.begin(), positions.end()));
    for (const int64_t position : positions) {
      tokens.push_back({.position = position, .long_factors = long_factors});
    }
  }
  tokens.resize(wave.line_count());
  return rotary.Tables(tokens, dtype);
}

}  // namespace

struct Phi3::Parts {
  ModelSpec spec;
  DType dtype;
  Weights weights;
  Rotary rotary;
  RowRule row_rule = {};

  std::unique_ptr<Arithmetic> NumericsFor(const ForwardOptions& options) const {
    return options.numerics == ForwardNumerics::kTransformers
               ? MakeLibraryArithmetic(spec, options.attention)
               : MakeCausalArithmetic(spec, options.attention, row_rule);
  }
  void ForwardTogether(absl::Span<const ForwardRow> rows,
                       const std::vector<int>& indices,
                       const ForwardOptions& options, Hooks& hooks) const;
};

Phi3::Phi3(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Phi3::~Phi3() = default;

absl::StatusOr<std::unique_ptr<Phi3>> Phi3::Load(
    std::shared_ptr<const Checkpoint> checkpoint, DType dtype) {
  std::unique_ptr<Phi3> model;
  const absl::Status status = RunGuarded([&] {
    model.reset(new Phi3(std::make_unique<Parts>(
        Parts{.spec = checkpoint->spec(),
              .dtype = dtype,
              .weights = LoadWeights(*checkpoint, dtype),
              .rotary = Rotary(checkpoint->spec())})));
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return model;
}

void Phi3::Forward(absl::Span<const ForwardRow> rows,
                   const ForwardOptions& options, Hooks& hooks) const {
  CheckAsked(rows, parts_->spec, options);
  std::vector<int> all(rows.size());
  std::iota(all.begin(), all.end(), 0);
  if (parts_->row_rule.kind != RowRule::Kind::kAlone) {
    return parts_->ForwardTogether(rows, all, options, hooks);
  }
  for (const int row : all) {
    parts_->ForwardTogether(rows, {row}, options, hooks);
  }
}

namespace {

class WholeForward final : public SteppedForward {
 public:
  explicit WholeForward(std::function<void()> run) : run_(std::move(run)) {}
  bool Step() override {
    run_();
    return false;
  }

 private:
  const std::function<void()> run_;
};

}  // namespace

std::unique_ptr<SteppedForward> Phi3::Begin(absl::Span<const ForwardRow> rows,
                                            const ForwardOptions& options,
                                            Hooks& hooks) const {
  return std::make_unique<WholeForward>(
      [this, rows, options, &hooks] { Forward(rows, options, hooks); });
}

void Phi3::Parts::ForwardTogether(absl::Span<const ForwardRow> rows,
                                  const std::vector<int>& indices,
                                  const ForwardOptions& options,
                                  Hooks& hooks) const {
  const at::AutoGradMode grad_mode(options.graph == ForwardGraph::kRecorded);
  const std::unique_ptr<Arithmetic> numerics = NumericsFor(options);
  Wave wave(rows, indices, numerics->wave_options());
  Pass pass{.spec = spec, .wave = wave, .numerics = *numerics, .hooks = hooks};
  Head head;

  ShowInputs(pass);
  at::Tensor x = Embed(weights.embedding, wave);
  x = pass.Show(Hook::kTokenEmbeddings, x);  // [T, D]
  pass.rotary = RotaryOf(wave, rotary, x.scalar_type());
  pass.Show(Hook::kRotaryCos, pass.rotary.cos);  // [T, R]
  pass.Show(Hook::kRotarySin, pass.rotary.sin);  // [T, R]
  head.Take(wave.EndLayer(-1, {}, x, pass.rotary));
  for (int layer = 0; !wave.empty(); ++layer) {
    pass.layer = layer;
    wave.BeginLayer(layer);
    x = DecoderLayer(weights.layers[layer], x, pass);
    const std::vector<int> dropped = hooks.AfterLayer(layer, wave.layout());
    head.Take(wave.EndLayer(layer, dropped, x, pass.rotary));
  }
  pass.layer = -1;
  head.Finish(weights, pass);
}

at::Tensor Phi3::LensLogits(const at::Tensor& residual, LensNorm norm) const {
  const at::NoGradGuard no_grad;
  const int64_t count = residual.size(0);
  const int64_t multiple = LineMultiple(parts_->row_rule);
  at::Tensor x = PaddedLines(residual.contiguous(),
                             (count + multiple - 1) / multiple * multiple);
  if (norm == LensNorm::kApply) {
    x = RmsNormLines(x, parts_->weights.final_norm, parts_->spec.rms_norm_eps);
  }
  return RuledLinear(x, parts_->weights.head, parts_->row_rule)
      .narrow(0, 0, count)
      .to(at::kFloat);
}

at::Tensor Phi3::LibraryLogits(const at::Tensor& residual,
                               LensNorm norm) const {
  const std::unique_ptr<Arithmetic> numerics =
      MakeLibraryArithmetic(parts_->spec, ForwardAttention::kSdpa);
  const at::Tensor x =
      norm == LensNorm::kApply
          ? numerics->RmsNorm(residual, parts_->weights.final_norm,
                              parts_->spec.rms_norm_eps)
          : residual;
  return numerics->Linear(x, parts_->weights.head).to(at::kFloat);
}

RowRule Phi3::MeasureRowRule() {
  const LayerWeights& layer = parts_->weights.layers.front();
  parts_->row_rule =
      phitap::MeasureRowRule({layer.qkv_proj, layer.o_proj, layer.gate_up_proj,
                              layer.down_proj, parts_->weights.head},
                             kRowRuleBudget);
  return parts_->row_rule;
}

const RowRule& Phi3::row_rule() const { return parts_->row_rule; }
const ModelSpec& Phi3::spec() const { return parts_->spec; }
DType Phi3::dtype() const { return parts_->dtype; }

}  // namespace phitap
