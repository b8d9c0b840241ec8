// SPDX-License-Identifier: Apache-2.0
#include "server/model/library_arithmetic.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/silu.h>

#include <memory>

namespace phitap {

Wave::Options LibraryArithmetic::wave_options() const {
  return {.line_multiple = 1, .positions = Wave::Positions::kAllOrNone};
}

at::Tensor LibraryArithmetic::Linear(const at::Tensor& x,
                                     const Matrix& weight) const {
  return at::linear(x, weight.stored);
}

at::Tensor LibraryArithmetic::RmsNorm(const at::Tensor& x,
                                      const at::Tensor& weight,
                                      double epsilon) const {
  const at::Tensor wide = x.to(at::kFloat);
  const at::Tensor variance = at::mean(wide.pow(2), {-1}, /*keepdim=*/true);
  return weight * (wide * at::rsqrt(variance + epsilon)).to(x.scalar_type());
}

at::Tensor LibraryArithmetic::Rotate(const at::Tensor& heads,
                                     const RotaryTables& rotary) const {
  const int64_t turned = rotary.cos.size(1);
  const at::Tensor x = heads.transpose(0, 1).unsqueeze(0);  // [1, heads, T, E]
  const at::Tensor cos = rotary.cos.unsqueeze(0).unsqueeze(0);
  const at::Tensor sin = rotary.sin.unsqueeze(0).unsqueeze(0);
  const at::Tensor rot = x.narrow(-1, 0, turned);
  const at::Tensor pass = x.narrow(-1, turned, x.size(-1) - turned);
  const at::Tensor half = at::cat(
      {-rot.narrow(-1, turned / 2, turned / 2), rot.narrow(-1, 0, turned / 2)},
      -1);
  const at::Tensor rotated =
      at::cat({(rot * cos) + (half * sin), pass}, -1);  // contiguous
  return rotated[0].transpose(0, 1);
}

at::Tensor LibraryArithmetic::Silu(const at::Tensor& gate) const {
  return at::silu(gate);
}

at::Tensor LibraryArithmetic::SwiGlu(const at::Tensor& gate,
                                     const at::Tensor& up) const {
  return up * at::silu(gate);
}

at::Tensor LibraryArithmetic::Attend(const AttentionInputs& inputs,
                                     const Pass& pass) {
  return attention_.Attend(inputs, pass);
}

std::unique_ptr<Arithmetic> MakeLibraryArithmetic(const ModelSpec& spec,
                                                  ForwardAttention attention) {
  return std::make_unique<LibraryArithmetic>(spec, attention);
}

}  // namespace phitap
