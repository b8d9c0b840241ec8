// How many lines a linear layer is called with, so that a line's bits do not
// depend on the others, nor on where it stands.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_MODEL_ROW_RULE_H_
#define PHITAP_SERVER_MODEL_ROW_RULE_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "server/model/matrix.h"

namespace phitap {

struct RowRule {
  // The first that holds is taken: a generated token costs as many lines as
  // the rule makes of one.
  enum class Kind { kMultipleOf4, kMultipleOf16, kExactly64, kAlone };
  Kind kind = Kind::kMultipleOf16;
  // Whether the start measurement found that the rule holds.
  bool batch_invariant = true;
};

// Matrices have a multiple of so many lines.
int64_t LineMultiple(const RowRule& rule);

// x · weightᵀ in calls that follow the rule; x has a multiple of
// LineMultiple(rule) lines.
at::Tensor RuledLinear(const at::Tensor& x, const Matrix& weight,
                       const RowRule& rule);

// The first rule that holds for every one of `weights` on this machine, with
// this number of threads, as far as can be seen in `budget`; where none does,
// kAlone. What is packed has to give the bits of what is stored.
RowRule MeasureRowRule(const std::vector<Matrix>& weights,
                       absl::Duration budget);

}  // namespace phitap

#endif  // PHITAP_SERVER_MODEL_ROW_RULE_H_
