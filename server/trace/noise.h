// Standard normal noise that depends on its place alone.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_TRACE_NOISE_H_
#define PHITAP_SERVER_TRACE_NOISE_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "server/plan/program.h"
#include "server/spec/hook_point.h"
#include "server/spec/model_spec.h"

namespace phitap {

// A part of a hook point's value: which element of it stands where.
struct NoisePlace {
  uint64_t seed = 0;
  HookPoint point;
  // Absolute; of scores and probabilities the queries. {0} where the value has
  // no positions.
  std::vector<int64_t> positions;
  // {0} where the value has no heads.
  std::vector<int64_t> heads;
  // Indices of the last dimension: features, or keys. {0} where the value has
  // none besides the positions.
  std::vector<int64_t> columns;
};

// Where a selection of the value of a prompt of `token_count` tokens stands.
NoisePlace PlaceOf(uint64_t seed, HookPoint point,
                   const ResolvedSelection& selection, const ModelSpec& spec,
                   int64_t token_count);

// float32, laid out as a capture of the part. An element is a function of seed,
// point, absolute position, head and column, so it is the same bits in any
// part that it belongs to.
at::Tensor StandardNormal(const NoisePlace& place);

}  // namespace phitap

#endif  // PHITAP_SERVER_TRACE_NOISE_H_
