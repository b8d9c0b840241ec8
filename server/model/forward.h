// What a forward is asked for.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_MODEL_FORWARD_H_
#define PHITAP_SERVER_MODEL_FORWARD_H_

#include <cstdint>

#include "absl/types/span.h"

namespace phitap {

// One run of a wave, as the model sees it. Spans outlive the forward.
struct ForwardRow {
  // At least one.
  absl::Span<const int32_t> ids;
  // One a token.
  absl::Span<const int64_t> position_ids;
  bool has_position_ids = false;
  // Positions whose keys no query sees, ascending.
  absl::Span<const int64_t> hidden_positions;
  // How far to go: see Reach in server/plan/trace_plan.h.
  int layer_count = 0;
  absl::Span<const int64_t> tail_positions;
  absl::Span<const int64_t> norm_positions;
  absl::Span<const int64_t> head_positions;
};

enum class ForwardNumerics { kCausal, kTransformers };
enum class ForwardAttention { kSdpa, kEager };

struct ForwardOptions {
  ForwardNumerics numerics = ForwardNumerics::kCausal;
  ForwardAttention attention = ForwardAttention::kSdpa;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_MODEL_FORWARD_H_
