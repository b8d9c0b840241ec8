// SPDX-License-Identifier: Apache-2.0
#include "server/model/causal_arithmetic.h"

#include <memory>

#include "server/model/line_kernels.h"

namespace phitap {

Wave::Options CausalArithmetic::wave_options() const {
  return {.line_multiple = LineMultiple(row_rule_)};
}

at::Tensor CausalArithmetic::Linear(const at::Tensor& x,
                                    const Matrix& weight) const {
  return RuledLinear(x, weight, row_rule_);
}

at::Tensor CausalArithmetic::RmsNorm(const at::Tensor& x,
                                     const at::Tensor& weight,
                                     double epsilon) const {
  return RmsNormLines(x, weight, epsilon);
}

at::Tensor CausalArithmetic::Rotate(const at::Tensor& heads,
                                    const RotaryTables& rotary) const {
  return RotateLines(heads, rotary.cos, rotary.sin);
}

at::Tensor CausalArithmetic::Silu(const at::Tensor& gate) const {
  return SiluLines(gate);
}

at::Tensor CausalArithmetic::SwiGlu(const at::Tensor& gate,
                                    const at::Tensor& up) const {
  return SwiGluLines(gate, up);
}

at::Tensor CausalArithmetic::Attend(const AttentionInputs& inputs,
                                    const Pass& pass) {
  return attention_.Attend(inputs, pass);
}

void CausalArithmetic::PassOver(const Pass& pass) { attention_.PassOver(pass); }

void CausalArithmetic::EndLayer(const Wave& wave) { attention_.EndLayer(wave); }

std::unique_ptr<Arithmetic> MakeCausalArithmetic(const ModelSpec& spec,
                                                 ForwardAttention attention,
                                                 const RowRule& row_rule) {
  return std::make_unique<CausalArithmetic>(spec, attention, row_rule);
}

}  // namespace phitap
