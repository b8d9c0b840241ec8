// What one request asks of the model, checked and resolved: the engine needs
// nothing else of it.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_TRACE_PLAN_H_
#define PHITAP_SERVER_PLAN_TRACE_PLAN_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "server/base/dtype.h"
#include "server/plan/program.h"
#include "server/spec/hook_point.h"

namespace phitap {

enum class Numerics { kCausal, kTransformers };
enum class Attention { kSdpa, kEager };
enum class LongropeCache { kRecompute, kKeep };

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

// How a run goes on after its prompt.
struct PlannedGeneration {
  // At least 1; the run never grows past the model's longest sequence.
  int max_tokens = 1;
  // 0 takes the likeliest.
  double temperature = 0;
  // 0 means all.
  int64_t top_k = 0;
  double top_p = 1;
  uint64_t seed = 0;
  // Ascending.
  std::vector<int32_t> stop_ids;
  std::vector<int32_t> forced_ids;
};

// What a write of a run means for what the run has in common with others: the
// run's values in layers before `first_layer`, and at positions before
// `first_position`, do not depend on it.
struct WriteExtent {
  // Index in TracePlan::writes.
  int write = 0;
  // Of layer_output of layer l it is l + 1, of the other hook points of layer l
  // it is l, of the token embeddings 0, of final norm, head and logits the
  // number of layers.
  int first_layer = 0;
  // The smallest position written; of scores and probabilities the smallest
  // query; of keys and values the smallest key.
  int64_t first_position = 0;
  // Two writes with the same digest, on equal values, leave equal values. 0,0:
  // like no other, since it needs values of runs.
  std::pair<uint64_t, uint64_t> digest = {0, 0};
  // Whether what is written at one position may depend on what the part holds
  // at another.
  bool mixes_positions = false;

  bool is_static() const { return digest != std::pair<uint64_t, uint64_t>(); }
};

// What decides which values a run has in common with others.
struct RunSharing {
  // Whether it may have any in common: not in kTransformers, nor where runs
  // may not share waves, nor of an `isolate` request, nor with a latch.
  bool allowed = false;
  // Whether its rotary factors are a longrope checkpoint's long ones.
  bool long_factors = false;
  // Of the writes that take part in the prompt's pass, in forward order and at
  // one hook point in the order of the plan.
  std::vector<WriteExtent> writes;
  // The smallest rectangle [first_asked_layer, …) × [first_asked_position, …)
  // that holds everything which captures and nodes read of the prompt's pass
  // (layers counted as in WriteExtent; what is shown before the first layer
  // counts as layer 0, position 0).
  int first_asked_layer = 0;
  int64_t first_asked_position = 0;
  // Whether its last position's head must be its own: it generates, or its
  // next_token_probs are read.
  bool owns_last_position = false;
};

struct PlannedRun {
  // Of a sweep's cell: the sweep's label and the cell's indices, `sweep[3, 0]`.
  std::string label;
  std::vector<int32_t> ids;
  // One a token.
  std::vector<int64_t> position_ids;
  // Whether the caller gave position_ids (numerics kTransformers passes them on
  // only then).
  bool has_position_ids = false;
  // Positions whose keys no query sees, ascending.
  std::vector<int64_t> hidden_positions;
  // Of the prompt's pass; every pass after it goes to the head where the run
  // generates.
  Reach reach;
  RunSharing sharing;
  // Positions that the run probably adds to a wave once what it shares with
  // other runs of the request is there; at least 1.
  int64_t own_token_count = 1;
  std::optional<PlannedGeneration> generation;
  // Index of the request's sweep that it is a cell of, −1 for the caller's own
  // runs, which come first.
  int sweep = -1;
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

// One hook point read in one run.
struct PlannedCapture {
  HookPoint point;
  // Where the forward shows the value: `point` itself, but for the input of
  // layer l the output of layer l − 1 (or the token embeddings), so that
  // reading it does not cost a layer.
  HookPoint read_at;
  int run = 0;
  ReadTime time = ReadTime::kAfter;
  ResolvedSelection selection;
  // Of pass 0 and the generated steps that it can come from at most.
  std::vector<int> steps = {0};
  // Not empty: only the passes after the prompt's whose token is one of these
  // (ascending).
  std::vector<int32_t> step_token_ids;
  Reduction reduction;
  // Index of its first tensor in TracePlan::tensors; those of steps[i] begin at
  // first_tensor + i · tensors a step. A plain value makes one, TopK two
  // (values, indices), LogitLens two (probabilities, indices) or, with token
  // ids, four (and token_probabilities, token_ranks).
  int first_tensor = 0;
};

// A tensor of the answer. Its dtype is the one on the wire.
struct PlannedTensor {
  std::string label;
  // −1 where it is not of one run (a node, a sweep): it comes once all that it
  // is computed from is there.
  int run = 0;
  HookPoint point;
  // Whether `point` says anything: not for a node or a sweep.
  bool has_point = true;
  int step = 0;
  std::string part;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::vector<std::string> dimension_names;
  int64_t size_bytes = 0;
  // Not empty: kept on the server under this name instead of being sent.
  std::string kept_as;
};

struct TracePlan {
  std::string model;
  Numerics numerics = Numerics::kCausal;
  Attention attention = Attention::kSdpa;
  bool isolate = false;
  // 0 to 10; higher goes first among the caller's own requests.
  int priority = 0;
  bool report_progress = false;
  LongropeCache longrope_cache = LongropeCache::kRecompute;
  std::vector<PlannedRun> runs;
  std::vector<ProgramNode> nodes;
  // In the order of the request: run by run.
  std::vector<PlannedWrite> writes;
  std::vector<PlannedOutput> outputs;
  std::vector<GradientPass> gradient_passes;
  // Every run and gradient pass once, in an order in which they can be
  // computed.
  std::vector<RunGroup> groups;
  // In the order of the request.
  std::vector<PlannedCapture> captures;
  std::vector<PlannedTensor> tensors;
  // Bytes of all tensors.
  int64_t size_bytes = 0;
  // Bytes that the tensors can keep in memory until they are read: some may be
  // views of storage of up to twice their size.
  int64_t storage_bytes = 0;
  // Bytes besides, at most. Between the request's waves: constants, values that
  // later groups read, keys and values of generating runs.
  int64_t working_bytes = 0;
  // Of a wave that the request has a part in, besides what its groups there
  // need (RunGroup::workspace_bytes): rows that nobody asked for, and what
  // comes one at a time.
  int64_t workspace_bytes = 0;
  // Σ over runs of layers × tokens to be computed (in the last layer its tail
  // positions: see TokenLayers in reach.h), and at full depth.
  int64_t token_layers = 0;
  int64_t token_layers_full_depth = 0;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_TRACE_PLAN_H_
