// Writes and values for tests of edits.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_UNIT_TRACE_EDIT_FIXTURE_H_
#define PHITAP_TESTS_UNIT_TRACE_EDIT_FIXTURE_H_

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "server/plan/program.h"
#include "server/trace/edit.h"

namespace phitap {

using Indices = std::vector<int64_t>;

inline bool SameBytes(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.contiguous();
  const at::Tensor y = b.contiguous();
  return x.scalar_type() == y.scalar_type() && x.sizes() == y.sizes() &&
         std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

inline PlannedWrite WriteAt(Hook hook, ResolvedSelection selection = {},
                            StepSelection steps = {}) {
  return {.point = {hook, 0},
          .selection = std::move(selection),
          .steps = std::move(steps),
          .field = "runs[0].interventions[0]"};
}

// A prompt of so many tokens, nothing generated.
struct PromptTokens {
  explicit PromptTokens(int64_t count) : ids(count, 1) {}
  RunSequence sequence() const {
    return {.ids = ids, .prompt_length = static_cast<int64_t>(ids.size())};
  }
  std::vector<int32_t> ids;
};

// Some of 0 … count − 1, at least one, in any order.
inline Indices SomeOf(int64_t count, std::mt19937& random) {
  Indices all(count);
  for (int64_t i = 0; i < count; ++i) all[i] = i;
  std::shuffle(all.begin(), all.end(), random);
  all.resize(1 + random() % count);
  return all;
}

}  // namespace phitap

#endif  // PHITAP_TESTS_UNIT_TRACE_EDIT_FIXTURE_H_
