// What a forward is asked for.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_MODEL_FORWARD_H_
#define PHITAP_SERVER_MODEL_FORWARD_H_

#include <cstdint>
#include <optional>

#include "absl/types/span.h"

namespace phitap {

class KeyValueCache;
class RowStates;

// What one row of a wave computes, as the model sees it: layers from
// first_layer on, of the positions from first_position on. See WaveRow in
// server/plan/executor.h. Spans and states outlive the forward.
struct ForwardRow {
  // At least one: those at positions first_position, first_position + 1, …
  absl::Span<const int32_t> ids;
  // The row's first position; above 0 the positions before it are in `cache`,
  // or its parent's.
  int64_t first_position = 0;
  // Holds the keys and values of the positions before first_position and no
  // others (of a row with a parent: nothing), and afterwards those of all
  // positions to the row's end; layer_count is then the model's. Null: nothing
  // is kept.
  KeyValueCache* cache = nullptr;
  // One a token.
  absl::Span<const int64_t> position_ids;
  // The factors of longrope for the row's own tokens (cached keys stay as they
  // are); unset: the largest of position_ids decides.
  std::optional<bool> long_factors;
  bool has_position_ids = false;
  // Positions whose keys no query sees, ascending; of the whole run, as all
  // positions below.
  absl::Span<const int64_t> hidden_positions;
  // How far to go: see Reach in server/plan/trace_plan.h.
  int layer_count = 0;
  absl::Span<const int64_t> tail_positions;
  absl::Span<const int64_t> norm_positions;
  absl::Span<const int64_t> head_positions;
  // What the row does not compute is its parent's, or its parent's parent's: a
  // row of the same forward with a smaller index, or an earlier one's states,
  // which are as they were between two steps. It has the row's tokens before
  // first_position, where first_layer > 0 all of them, and goes as far as the
  // row needs it: to layer first_layer with the row's positions in its tail,
  // where first_position > 0 to the row's layer_count. Only in kCausal.
  int first_layer = 0;
  int parent_row = -1;
  const RowStates* parent_states = nullptr;
  // Where to leave what the row computes, which has no parent and begins at
  // position 0; null: nowhere.
  RowStates* states = nullptr;
};

enum class ForwardNumerics { kCausal, kTransformers };
enum class ForwardAttention { kSdpa, kEager };
// Whether libtorch records the forward, so that gradients can be taken; only in
// kTransformers, which has no kernels of our own.
enum class ForwardGraph { kNone, kRecorded };

// A forward that can be left between two layers and gone on with.
class SteppedForward {
 public:
  virtual ~SteppedForward() = default;
  // Computes the next layer; the first call embeds before it, the last one goes
  // on to the head. Layers that no row computes are passed over. Returns
  // whether there is more. May throw c10::Error, after which it must not be
  // called again.
  virtual bool Step() = 0;
};

struct ForwardOptions {
  ForwardNumerics numerics = ForwardNumerics::kCausal;
  ForwardAttention attention = ForwardAttention::kSdpa;
  ForwardGraph graph = ForwardGraph::kNone;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_MODEL_FORWARD_H_
