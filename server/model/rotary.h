// Rotary position embedding: the tables that queries and keys are turned with.
//
//   angle(p, j) = p · inverse_frequency[j],  j < R/2
//   inverse_frequency[j] = 1 / (factor[j] · theta^(2j/R))
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_MODEL_ROTARY_H_
#define PHITAP_SERVER_MODEL_ROTARY_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "server/spec/model_spec.h"

namespace phitap {

// The R/2 angles of a token stand twice in its line, once for each half of the
// dimensions that are turned; the attention factor is multiplied in.
struct RotaryTables {
  at::Tensor cos;  // [T, R]
  at::Tensor sin;  // [T, R]
};

// What to turn one token by.
struct RotaryToken {
  int64_t position = 0;
  // Whether its run reaches past the original context of a longrope checkpoint.
  bool long_factors = false;
};

// Immutable.
class Rotary {
 public:
  explicit Rotary(const ModelSpec& spec);

  // Whether a run whose largest position is this takes the long factors.
  bool TakesLongFactors(int64_t largest_position) const;

  // Computed in float32, then rounded to `dtype`, a line for each token.
  RotaryTables Tables(const std::vector<RotaryToken>& tokens,
                      at::ScalarType dtype) const;

 private:
  int64_t original_max_positions_ = 0;  // 0 where there is but one factor list
  double attention_factor_ = 1.0;
  at::Tensor short_inverse_frequencies_;  // [R / 2]
  at::Tensor long_inverse_frequencies_;   // [R / 2]
};

}  // namespace phitap

#endif  // PHITAP_SERVER_MODEL_ROTARY_H_
