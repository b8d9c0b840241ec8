// Arithmetic in which the bits of a value depend only on what can causally
// reach it: the tokens up to its position. Not on the prompt's length, not on
// the other rows of the wave, not on how threads share the work.
//
// Linear layers follow the row rule, attention runs in canonical tiles, the
// rest line by line in kernels whose every element is the same operations.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_MODEL_CAUSAL_ARITHMETIC_H_
#define PHITAP_SERVER_MODEL_CAUSAL_ARITHMETIC_H_

#include <ATen/core/Tensor.h>

#include "server/model/arithmetic.h"
#include "server/model/row_rule.h"
#include "server/model/tile_attention.h"

namespace phitap {

class CausalArithmetic final : public Arithmetic {
 public:
  CausalArithmetic(const ModelSpec& spec, ForwardAttention attention,
                   const RowRule& row_rule)
      : row_rule_(row_rule), attention_(spec, attention) {}

  Wave::Options wave_options() const override;
  at::Tensor Linear(const at::Tensor& x, const Matrix& weight) const override;
  at::Tensor RmsNorm(const at::Tensor& x, const at::Tensor& weight,
                     double epsilon) const override;
  at::Tensor Rotate(const at::Tensor& heads,
                    const RotaryTables& rotary) const override;
  at::Tensor Silu(const at::Tensor& gate) const override;
  at::Tensor SwiGlu(const at::Tensor& gate,
                    const at::Tensor& up) const override;
  at::Tensor Attend(const AttentionInputs& inputs, const Pass& pass) override;
  void PassOver(const Pass& pass) override;
  void EndLayer(const Wave& wave) override;

 private:
  const RowRule row_rule_;
  TileAttention attention_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_MODEL_CAUSAL_ARITHMETIC_H_
