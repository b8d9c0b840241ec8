// Arithmetic in exactly the library calls, shapes and strides of transformers
// 5.24's Phi-3 for one prompt, and so with its bits on the same libtorch, CPU
// and number of threads. SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_MODEL_LIBRARY_ARITHMETIC_H_
#define PHITAP_SERVER_MODEL_LIBRARY_ARITHMETIC_H_

#include <ATen/core/Tensor.h>

#include "server/model/arithmetic.h"
#include "server/model/library_attention.h"

namespace phitap {

class LibraryArithmetic final : public Arithmetic {
 public:
  LibraryArithmetic(const ModelSpec& spec, ForwardAttention attention)
      : attention_(spec, attention) {}

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

 private:
  LibraryAttention attention_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_MODEL_LIBRARY_ARITHMETIC_H_
