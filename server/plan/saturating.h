// Arithmetic on sizes that a caller chose: past the largest number it stays
// there, so that every comparison with a ceiling is right.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_SATURATING_H_
#define PHITAP_SERVER_PLAN_SATURATING_H_

#include <cstdint>
#include <limits>

namespace phitap {

// Both arguments are 0 or more.
inline int64_t SaturatingAdd(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum)
             ? std::numeric_limits<int64_t>::max()
             : sum;
}

// Both arguments are 0 or more.
inline int64_t SaturatingMultiply(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product)
             ? std::numeric_limits<int64_t>::max()
             : product;
}

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_SATURATING_H_
