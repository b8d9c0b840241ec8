// What one request asks of the model, checked and resolved: the engine needs
// nothing else of it.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_TRACE_PLAN_H_
#define PHITAP_SERVER_PLAN_TRACE_PLAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "server/base/dtype.h"
#include "server/spec/hook_point.h"

namespace phitap {

enum class Numerics { kCausal, kTransformers };
enum class Attention { kSdpa, kEager };

// How far a run's forward has to go. All lists ascend.
struct Reach {
  // Layers to compute; 0 is the embeddings alone.
  int layer_count = 0;
  // In the last of these layers: positions that go on after the keys and values
  // (attention outputs and all that follows). In the others all positions do.
  std::vector<int64_t> tail_positions;
  // Positions that the final norm reads, a subset of tail_positions; empty
  // where nothing asks for the norm or what follows it.
  std::vector<int64_t> norm_positions;
  // Positions that the head reads, a subset of norm_positions.
  std::vector<int64_t> head_positions;
};

struct PlannedRun {
  std::string label;
  std::vector<int32_t> ids;
  // One a token.
  std::vector<int64_t> position_ids;
  // Whether the caller gave position_ids (numerics kTransformers passes them on
  // only then).
  bool has_position_ids = false;
  // Positions whose keys no query sees, ascending.
  std::vector<int64_t> hidden_positions;
  Reach reach;
};

struct MeanOverPositionsReduction {};
struct NormReduction {};
struct TopKReduction {
  int64_t k = 0;
};
struct LogitLensReduction {
  int64_t k = 0;
  std::vector<int32_t> token_ids;
  bool apply_final_norm = true;
};
using Reduction =
    std::variant<std::monostate, MeanOverPositionsReduction, NormReduction,
                 TopKReduction, LogitLensReduction>;

// Indices to keep along each dimension, in the order asked for; unset keeps
// all. None is empty, none repeats an index.
struct ResolvedSelection {
  std::optional<std::vector<int64_t>> positions;
  std::optional<std::vector<int64_t>> heads;
  std::optional<std::vector<int64_t>> features;
  std::optional<std::vector<int64_t>> queries;
  std::optional<std::vector<int64_t>> keys;
};

// One hook point read in one run.
struct PlannedCapture {
  HookPoint point;
  // Where the forward shows the value: `point` itself, but for the input of
  // layer l the output of layer l − 1 (or the token embeddings), so that
  // reading it does not cost a layer.
  HookPoint read_at;
  int run = 0;
  ResolvedSelection selection;
  Reduction reduction;
  // Index of its first tensor in TracePlan::tensors. A plain value makes one,
  // TopK two (values, indices), LogitLens two (probabilities, indices) or, with
  // token ids, four (and token_probabilities, token_ranks).
  int first_tensor = 0;
};

// A tensor of the answer. Its dtype is the one on the wire.
struct PlannedTensor {
  std::string label;
  int run = 0;
  HookPoint point;
  std::string part;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::vector<std::string> dimension_names;
  int64_t size_bytes = 0;
};

struct TracePlan {
  std::string model;
  Numerics numerics = Numerics::kCausal;
  Attention attention = Attention::kSdpa;
  bool isolate = false;
  bool report_progress = false;
  std::vector<PlannedRun> runs;
  // In the order of the request.
  std::vector<PlannedCapture> captures;
  std::vector<PlannedTensor> tensors;
  // Bytes of all tensors.
  int64_t size_bytes = 0;
  // Σ over runs of layers × tokens to be computed (in the last layer its tail
  // positions: see TokenLayers in reach.h), and at full depth.
  int64_t token_layers = 0;
  int64_t token_layers_full_depth = 0;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_TRACE_PLAN_H_
