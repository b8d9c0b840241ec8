// Arithmetic on one line (one token's vector), the same bits on every machine:
// each element is a fixed sequence of IEEE operations, in vectors or not.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_MODEL_LINE_LOOPS_H_
#define PHITAP_SERVER_MODEL_LINE_LOOPS_H_

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <cstdint>

namespace phitap {

// Heads of one token, `head_dim` elements each; the rotary turns the first
// `rotary_dims` of every head.
struct HeadsOfLine {
  int64_t heads = 0;
  int64_t head_dim = 0;
  int64_t rotary_dims = 0;
};

// Intermediate values are rounded to T wherever libtorch, one operation at a
// time, would round them. Output and input may not overlap.
//
// RmsNormLine: out = weight · T(x / √(mean(x²) + epsilon)), the squares summed
// in
//   float32 in a fixed order; `scratch` holds n floats.
// SiluLine: out = gate / (1 + e^−gate).
// SwiGluLine: out = up · silu(gate).
// RotateLine: out = x · cos + rotate_half(x) · sin, where rotate_half of halves
//   (a, b) is (−b, a); cos and sin hold `rotary_dims` elements.
// AllFinite: whether no element is NaN or infinite.
#define PHITAP_DECLARE_LINE_LOOPS(T)                               \
  void RmsNormLine(const T* x, const T* weight, T* out, int64_t n, \
                   float epsilon, float* scratch);                 \
  void SiluLine(const T* gate, T* out, int64_t n);                 \
  void SwiGluLine(const T* gate, const T* up, T* out, int64_t n);  \
  void RotateLine(const T* x, const T* cos, const T* sin, T* out,  \
                  const HeadsOfLine& shape);                       \
  bool AllFinite(const T* x, int64_t n);

PHITAP_DECLARE_LINE_LOOPS(float)
PHITAP_DECLARE_LINE_LOOPS(c10::BFloat16)
PHITAP_DECLARE_LINE_LOOPS(c10::Half)
#undef PHITAP_DECLARE_LINE_LOOPS

}  // namespace phitap

#endif  // PHITAP_SERVER_MODEL_LINE_LOOPS_H_
