// The forward's arithmetic, which can be done in two ways that differ in how
// they round and share work, not in what they compute.
//
// T lines (tokens), D hidden size, H heads, KV key/value heads, E head size,
// F MLP width, R rotary dimensions.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_MODEL_ARITHMETIC_H_
#define PHITAP_SERVER_MODEL_ARITHMETIC_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "server/model/forward.h"
#include "server/model/matrix.h"
#include "server/model/pass.h"
#include "server/model/rotary.h"
#include "server/model/row_rule.h"
#include "server/model/wave.h"
#include "server/spec/model_spec.h"

namespace phitap {

// Rotated, one line a token of the wave.
struct AttentionInputs {
  at::Tensor queries;  // [T, H, E]
  at::Tensor keys;     // [T, KV, E]
  at::Tensor values;   // [T, KV, E]
};

// May keep what it needs between the layers of one forward; not thread-safe.
class Arithmetic {
 public:
  virtual ~Arithmetic() = default;

  virtual Wave::Options wave_options() const = 0;

  // x · weightᵀ: [T, in] × [out, in] → [T, out].
  virtual at::Tensor Linear(const at::Tensor& x,
                            const Matrix& weight) const = 0;
  // weight · x / √(mean(x²) + epsilon), [T, D].
  virtual at::Tensor RmsNorm(const at::Tensor& x, const at::Tensor& weight,
                             double epsilon) const = 0;
  // x · cos + rotate_half(x) · sin on the first R of E, [T, heads, E].
  virtual at::Tensor Rotate(const at::Tensor& heads,
                            const RotaryTables& rotary) const = 0;
  // gate / (1 + e^−gate), [T, F].
  virtual at::Tensor Silu(const at::Tensor& gate) const = 0;
  // up · silu(gate), [T, F].
  virtual at::Tensor SwiGlu(const at::Tensor& gate,
                            const at::Tensor& up) const = 0;
  // softmax(q kᵀ / √E + visibility) v for the wave's tail: [T of the tail, H,
  // E]. Shows the layer's scores and probabilities where the hooks want them.
  virtual at::Tensor Attend(const AttentionInputs& inputs,
                            const Pass& pass) = 0;

  // No row of the wave computes the pass's layer: those that wait leave in
  // their caches what they have of it from before.
  virtual void PassOver(const Pass&) {}
  // Gives back what is kept for rows that the wave no longer has.
  virtual void EndLayer(const Wave&) {}
};

// The bits of a value depend only on what can reach it: see
// causal_arithmetic.h.
std::unique_ptr<Arithmetic> MakeCausalArithmetic(const ModelSpec& spec,
                                                 ForwardAttention attention,
                                                 const RowRule& row_rule);
// The library calls of transformers, for one row: see library_arithmetic.h.
std::unique_ptr<Arithmetic> MakeLibraryArithmetic(const ModelSpec& spec,
                                                  ForwardAttention attention);

}  // namespace phitap

#endif  // PHITAP_SERVER_MODEL_ARITHMETIC_H_
