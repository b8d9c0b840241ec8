// Elements of the model's types to float32 and back without a branch, so that
// loops over them become vectors. Rounds to nearest even, as libtorch does.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_MODEL_ELEMENT_H_
#define PHITAP_SERVER_MODEL_ELEMENT_H_

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <bit>
#include <cstdint>

namespace phitap {

inline float ToFloat(float x) { return x; }

inline float ToFloat(c10::BFloat16 x) {
  return std::bit_cast<float>(static_cast<uint32_t>(x.x) << 16);
}

inline float ToFloat(c10::Half x) {
  const uint32_t magnitude = x.x & 0x7fffu;
  // Exponents are re-biased by a multiplication, exact for subnormals too.
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  const uint32_t not_finite = magnitude >= 0x7c00u ? 0x7f800000u : 0u;
  const uint32_t sign = static_cast<uint32_t>(x.x & 0x8000u) << 16;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(scaled) | not_finite |
                              sign);
}

inline void Store(float x, float* out) { *out = x; }

inline void Store(float x, c10::BFloat16* out) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  out->x = static_cast<uint16_t>((nan ? 0x7fc00000u : rounded) >> 16);
}

inline void Store(float x, c10::Half* out) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t magnitude = bits & 0x7fffffffu;
  // Below 2⁻¹⁴ an addition does the rounding: 0.5 has float16's smallest step.
  const uint32_t subnormal =
      std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) -
      0x3f000000u;
  const uint32_t normal =
      (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  const uint32_t not_finite = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
  const uint32_t finite = magnitude < 0x38800000u ? subnormal : normal;
  const uint32_t half = magnitude >= 0x47800000u ? not_finite : finite;
  out->x = static_cast<uint16_t>(half | ((bits >> 16) & 0x8000u));
}

// x as T would hold it.
template <typename T>
inline float RoundTo(float x) {
  T rounded;
  Store(x, &rounded);
  return ToFloat(rounded);
}

}  // namespace phitap

#endif  // PHITAP_SERVER_MODEL_ELEMENT_H_
