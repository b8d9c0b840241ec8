// Which token a run goes on with.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_TRACE_SAMPLER_H_
#define PHITAP_SERVER_TRACE_SAMPLER_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "absl/status/statusor.h"
#include "server/plan/trace_plan.h"

namespace phitap {

struct ChosenToken {
  int32_t id = 0;
  // log softmax(logits)[id], before temperature and truncation.
  double log_probability = 0;
};

// Uniform in [0, 1): a function of its arguments alone.
double UniformOf(uint64_t seed, uint64_t step);

// The token of step `step` (from 1) for the last position's logits [V], of any
// floating-point type: a forced one, the likeliest (ties: the smallest id), or
// one drawn from softmax(logits / temperature), cut first to the k likeliest,
// then to the fewest likeliest that together reach probability top_p. INTERNAL
// where the logits hold a NaN or +∞, or are all −∞.
absl::StatusOr<ChosenToken> ChooseToken(const at::Tensor& logits,
                                        const PlannedGeneration& generation,
                                        int step);

}  // namespace phitap

#endif  // PHITAP_SERVER_TRACE_SAMPLER_H_
