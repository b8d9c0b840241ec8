// SPDX-License-Identifier: Apache-2.0
// Compiled without contraction into fused multiply-adds (see CMakeLists.txt):
// an element must round alike in a vector and alone.
#include "server/model/line_loops.h"

#include <cmath>
#include <cstring>
#include <type_traits>

#include "server/model/element.h"

// One copy for each vector width, chosen at load. The sanitizers instrument the
// chooser, which runs before they are ready.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define PHITAP_EACH_VECTOR_WIDTH \
  __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define PHITAP_EACH_VECTOR_WIDTH
#endif
#define PHITAP_INLINE inline __attribute__((always_inline))

namespace phitap {
namespace {

// Cephes' expf: x = n·ln 2 + r, a polynomial in r, and two halves of 2ⁿ so that
// overflow and underflow happen where they should. Within 2 units in the last
// place; NaN stays NaN.
PHITAP_INLINE float Exp(float x) {
  constexpr float kRoundToInteger = 12582912.0f;  // 1.5 · 2²³
  x = x > 89.0f ? 89.0f : x;
  x = x < -104.0f ? -104.0f : x;
  const float shifted = x * 1.44269504088896341f + kRoundToInteger;
  const float n = shifted - kRoundToInteger;
  const float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = (p * r) * r + r + 1.0f;

  uint32_t bits;
  uint32_t origin;
  std::memcpy(&bits, &shifted, sizeof(bits));
  std::memcpy(&origin, &kRoundToInteger, sizeof(origin));
  const auto exponent = static_cast<int32_t>(bits - origin);
  const int32_t half = exponent >> 1;
  const uint32_t low_bits = static_cast<uint32_t>(half + 127) << 23;
  const uint32_t high_bits = static_cast<uint32_t>(exponent - half + 127) << 23;
  float low;
  float high;
  std::memcpy(&low, &low_bits, sizeof(low));
  std::memcpy(&high, &high_bits, sizeof(high));
  return p * low * high;
}

PHITAP_INLINE float Silu(float x) { return x / (1.0f + Exp(-x)); }

// Sixty-four running sums, then halves added to halves.
PHITAP_INLINE float SumOfSquares(const float* x, int64_t n) {
  constexpr int64_t kLanes = 64;
  float sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t j = 0; j < kLanes; ++j) sums[j] += x[i + j] * x[i + j];
  }
  for (int64_t j = 0; i + j < n; ++j) sums[j] += x[i + j] * x[i + j];
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (int64_t j = 0; j < half; ++j) sums[j] += sums[j + half];
  }
  return sums[0];
}

template <typename T>
PHITAP_INLINE void RmsNormLoop(const T* __restrict x,
                               const T* __restrict weight, T* __restrict out,
                               int64_t n, float epsilon,
                               float* __restrict scratch) {
  for (int64_t i = 0; i < n; ++i) scratch[i] = ToFloat(x[i]);
  const float mean = SumOfSquares(scratch, n) / static_cast<float>(n);
  const float scale = 1.0f / std::sqrt(mean + epsilon);
  for (int64_t i = 0; i < n; ++i) {
    Store(ToFloat(weight[i]) * RoundTo<T>(scratch[i] * scale), out + i);
  }
}

template <typename T>
PHITAP_INLINE void SiluLoop(const T* __restrict gate, T* __restrict out,
                            int64_t n) {
  for (int64_t i = 0; i < n; ++i) Store(Silu(ToFloat(gate[i])), out + i);
}

template <typename T>
PHITAP_INLINE void SwiGluLoop(const T* __restrict gate, const T* __restrict up,
                              T* __restrict out, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    Store(ToFloat(up[i]) * RoundTo<T>(Silu(ToFloat(gate[i]))), out + i);
  }
}

// Element j of a half: x · cos + other · sin, `other` from the other half.
template <typename T>
PHITAP_INLINE void RotateHalf(const T* __restrict x, const T* __restrict other,
                              float other_sign, const T* __restrict cos,
                              const T* __restrict sin, T* __restrict out,
                              int64_t half) {
  for (int64_t j = 0; j < half; ++j) {
    Store(RoundTo<T>(ToFloat(x[j]) * ToFloat(cos[j])) +
              RoundTo<T>(other_sign * ToFloat(other[j]) * ToFloat(sin[j])),
          out + j);
  }
}

template <typename T>
PHITAP_INLINE void RotateLoop(const T* x, const T* cos, const T* sin, T* out,
                              const HeadsOfLine& shape) {
  const int64_t half = shape.rotary_dims / 2;
  const int64_t passed = shape.head_dim - shape.rotary_dims;
  for (int64_t head = 0; head < shape.heads; ++head) {
    const int64_t at = head * shape.head_dim;
    RotateHalf(x + at, x + at + half, -1.0f, cos, sin, out + at, half);
    RotateHalf(x + at + half, x + at, 1.0f, cos + half, sin + half,
               out + at + half, half);
    std::memcpy(out + at + shape.rotary_dims, x + at + shape.rotary_dims,
                passed * sizeof(T));
  }
}

template <typename T>
PHITAP_INLINE bool AllFiniteLoop(const T* x, int64_t n) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint16_t>;
  constexpr Bits kExponent = std::is_same_v<T, float>           ? 0x7f800000u
                             : std::is_same_v<T, c10::BFloat16> ? 0x7f80u
                                                                : 0x7c00u;
  Bits found = 0;
  for (int64_t i = 0; i < n; ++i) {
    Bits bits;
    std::memcpy(&bits, x + i, sizeof(bits));
    found |= (bits & kExponent) == kExponent ? 1 : 0;
  }
  return found == 0;
}

}  // namespace

// gcc makes copies of plain functions only, hence no template here.
#define PHITAP_LINE_LOOPS(T)                                                  \
  PHITAP_EACH_VECTOR_WIDTH                                                    \
  void RmsNormLine(const T* x, const T* weight, T* out, int64_t n,            \
                   float epsilon, float* scratch) {                           \
    RmsNormLoop(x, weight, out, n, epsilon, scratch);                         \
  }                                                                           \
  PHITAP_EACH_VECTOR_WIDTH                                                    \
  void SiluLine(const T* gate, T* out, int64_t n) { SiluLoop(gate, out, n); } \
  PHITAP_EACH_VECTOR_WIDTH                                                    \
  void SwiGluLine(const T* gate, const T* up, T* out, int64_t n) {            \
    SwiGluLoop(gate, up, out, n);                                             \
  }                                                                           \
  PHITAP_EACH_VECTOR_WIDTH                                                    \
  void RotateLine(const T* x, const T* cos, const T* sin, T* out,             \
                  const HeadsOfLine& shape) {                                 \
    RotateLoop(x, cos, sin, out, shape);                                      \
  }                                                                           \
  PHITAP_EACH_VECTOR_WIDTH                                                    \
  bool AllFinite(const T* x, int64_t n) { return AllFiniteLoop(x, n); }

PHITAP_LINE_LOOPS(float)
PHITAP_LINE_LOOPS(c10::BFloat16)
PHITAP_LINE_LOOPS(c10::Half)

}  // namespace phitap
