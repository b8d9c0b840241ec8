// One forward, layer by layer.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_MODEL_LAYERED_FORWARD_H_
#define PHITAP_SERVER_MODEL_LAYERED_FORWARD_H_

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "server/model/arithmetic.h"
#include "server/model/forward.h"
#include "server/model/head.h"
#include "server/model/hooks.h"
#include "server/model/pass.h"
#include "server/model/rotary.h"
#include "server/model/row_rule.h"
#include "server/model/token_rotary.h"
#include "server/model/wave.h"
#include "server/model/weights.h"
#include "server/spec/model_spec.h"

namespace phitap {

// The model, as its forwards see it.
struct ForwardModel {
  const ModelSpec& spec;
  const Weights& weights;
  const Rotary& rotary;
  RowRule row_rule;
};

// Throws c10::Error unless the rows can be computed.
void CheckAsked(absl::Span<const ForwardRow> rows, const ModelSpec& spec,
                const ForwardOptions& options);

// Its state between two layers: which it is at, the residual stream, and the
// keys and values that are needed on. What it is given outlives it.
class LayeredForward final : public SteppedForward {
 public:
  // Of the rows at `indices`, ascending, of the caller's list.
  LayeredForward(const ForwardModel& model, absl::Span<const ForwardRow> rows,
                 const std::vector<int>& indices, const ForwardOptions& options,
                 Hooks& hooks);

  bool Step() override;

 private:
  void Begin();
  // h = x + attention(norm(x));  y = h + mlp(norm(h)), as far as anyone needs
  // it: without lines where nobody asked for more than keys and values.
  at::Tensor DecoderLayer(at::Tensor x);
  // Behind a layer: rows join, y is shown, rows leave.
  void EndLayer(const at::Tensor& y);
  void Leave(const std::vector<int>& dropped);
  void KeepResiduals(const at::Tensor& y) const;

  const ForwardModel model_;
  const ForwardOptions options_;
  const std::unique_ptr<Arithmetic> numerics_;
  Wave wave_;
  const TokenRotary rotary_;
  Pass pass_;
  Head head_;
  at::Tensor x_;  // [T, D]: the residual stream
  bool begun_ = false;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_MODEL_LAYERED_FORWARD_H_
