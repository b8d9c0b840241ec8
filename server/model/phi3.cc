// SPDX-License-Identifier: Apache-2.0
#include "server/model/phi3.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <utility>

#include "absl/time/time.h"
#include "server/base/status_macros.h"
#include "server/model/arithmetic.h"
#include "server/model/layered_forward.h"
#include "server/model/line_kernels.h"
#include "server/model/rotary.h"
#include "server/model/torch_guard.h"
#include "server/model/weights.h"

namespace phitap {
namespace {

constexpr absl::Duration kRowRuleBudget = absl::Milliseconds(700);

// One after another.
class ForwardsInTurn final : public SteppedForward {
 public:
  using Start = std::function<std::unique_ptr<SteppedForward>()>;
  explicit ForwardsInTurn(std::vector<Start> starts)
      : starts_(std::move(starts)) {}

  bool Step() override {
    if (next_ == starts_.size()) return false;
    if (current_ == nullptr) current_ = starts_[next_]();
    if (current_->Step()) return true;
    current_ = nullptr;
    return ++next_ < starts_.size();
  }

 private:
  const std::vector<Start> starts_;
  size_t next_ = 0;
  std::unique_ptr<SteppedForward> current_;
};

// Rows by the tree that they belong to.
std::vector<std::vector<int>> Trees(absl::Span<const ForwardRow> rows) {
  std::map<int, std::vector<int>> trees;
  for (int i = 0; i < static_cast<int>(rows.size()); ++i) {
    int top = i;
    while (rows[top].parent_row >= 0) top = rows[top].parent_row;
    trees[top].push_back(i);
  }
  std::vector<std::vector<int>> list;
  for (auto& [top, indices] : trees) list.push_back(std::move(indices));
  return list;
}

}  // namespace

struct Phi3::Parts {
  ModelSpec spec;
  DType dtype;
  Weights weights;
  Rotary rotary;
  RowRule row_rule = {};
};

Phi3::Phi3(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Phi3::~Phi3() = default;

absl::StatusOr<std::unique_ptr<Phi3>> Phi3::Load(
    std::shared_ptr<const Checkpoint> checkpoint, DType dtype,
    WeightPacking packing, const WeightProgress& on_progress) {
  std::unique_ptr<Phi3> model;
  const absl::Status status = RunGuarded([&]() -> absl::Status {
    ASSIGN_OR_RETURN(Weights weights,
                     LoadWeights(*checkpoint, dtype, packing, on_progress));
    model.reset(new Phi3(
        std::make_unique<Parts>(Parts{.spec = checkpoint->spec(),
                                      .dtype = dtype,
                                      .weights = std::move(weights),
                                      .rotary = Rotary(checkpoint->spec())})));
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return model;
}

void Phi3::Forward(absl::Span<const ForwardRow> rows,
                   const ForwardOptions& options, Hooks& hooks) const {
  const std::unique_ptr<SteppedForward> forward = Begin(rows, options, hooks);
  while (forward->Step()) {
  }
}

std::unique_ptr<SteppedForward> Phi3::Begin(absl::Span<const ForwardRow> rows,
                                            const ForwardOptions& options,
                                            Hooks& hooks) const {
  CheckAsked(rows, parts_->spec, options);
  const ForwardModel model{.spec = parts_->spec,
                           .weights = parts_->weights,
                           .rotary = parts_->rotary,
                           .row_rule = parts_->row_rule};
  const auto begin = [=, &hooks](const std::vector<int>& indices) {
    return std::make_unique<LayeredForward>(model, rows, indices, options,
                                            hooks);
  };
  if (parts_->row_rule.kind != RowRule::Kind::kAlone) {
    std::vector<int> all(rows.size());
    std::iota(all.begin(), all.end(), 0);
    return begin(all);
  }
  std::vector<ForwardsInTurn::Start> starts;
  for (const std::vector<int>& tree : Trees(rows)) {
    starts.push_back([=] { return begin(tree); });
  }
  return std::make_unique<ForwardsInTurn>(std::move(starts));
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
  const auto measure = [this] {
    const LayerWeights& layer = parts_->weights.layers.front();
    return phitap::MeasureRowRule(
        {layer.qkv_proj, layer.o_proj, layer.gate_up_proj, layer.down_proj,
         parts_->weights.head},
        kRowRuleBudget);
  };
  parts_->row_rule = measure();
  if (packed() && !parts_->row_rule.batch_invariant) {
    Unpack(parts_->weights);
    parts_->row_rule = measure();
  }
  return parts_->row_rule;
}

void Phi3::SetRowRule(const RowRule& rule) { parts_->row_rule = rule; }

const RowRule& Phi3::row_rule() const { return parts_->row_rule; }
bool Phi3::packed() const { return parts_->weights.head.is_packed(); }
const ModelSpec& Phi3::spec() const { return parts_->spec; }
DType Phi3::dtype() const { return parts_->dtype; }

}  // namespace phitap
