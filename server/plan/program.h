// Values computed from those of the runs, and what is written with them: what
// interventions, programs, metrics, gradients and sweeps are lowered to.
//
// Nodes compute in float32 on static shapes that broadcast as in NumPy; a value
// that is only moved (a read that a write sets) keeps its bits.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_PROGRAM_H_
#define PHITAP_SERVER_PLAN_PROGRAM_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "server/base/dtype.h"
#include "server/base/host_tensor.h"
#include "server/spec/hook_point.h"

namespace phitap {

// Relative to the writes of the same run at the same hook point.
enum class ReadTime { kAfter, kBefore };

// Indices to keep along each dimension, in the order asked for; unset keeps
// all. None is empty, none repeats an index.
struct ResolvedSelection {
  std::optional<std::vector<int64_t>> positions;
  std::optional<std::vector<int64_t>> heads;
  std::optional<std::vector<int64_t>> features;
  std::optional<std::vector<int64_t>> queries;
  std::optional<std::vector<int64_t>> keys;
};

// The passes of a run that something takes part in. Pass 0 is the prompt; pass
// t is the t-th generated token's, at position prompt length + t − 1, whose
// value is one position (or query) to which the selection's heads, features and
// keys apply.
struct StepSelection {
  bool prompt = true;
  // Every pass after the prompt's, or those of `steps` (ascending, from 1).
  bool every_step = false;
  std::vector<int> steps;
  // Not empty: only the passes after the prompt's whose token is one of these
  // (ascending).
  std::vector<int32_t> token_ids;

  bool has_generated() const { return every_step || !steps.empty(); }
};

// --- Sources ---

// The part that is being edited, as it stands when the write is reached. Nodes
// that depend on it belong to one write and are computed each time it applies.
struct CurrentValue {};

// Part of a value of a run, laid out as a capture of it.
struct RunRead {
  // kEvery (only below a latch, whose run it is then): of the pass under way.
  // It is the value's one position there, the last of the prompt in pass 0; the
  // selection's positions are the prompt's last.
  enum class Passes { kPrompt, kEvery };
  int run = 0;
  HookPoint point;
  // Where the forward shows it: see PlannedCapture::read_at.
  HookPoint read_at;
  ReadTime time = ReadTime::kAfter;
  ResolvedSelection selection;
  Passes passes = Passes::kPrompt;
};

// Of any floating-point type.
struct ConstantValue {
  HostTensor value;
};

// Standard normal: an element is a function of seed, hook, layer, absolute
// position and place within the position's value (for scores and probabilities:
// head, query and key). Of the part that is being edited where `like` is unset.
struct NoiseValue {
  uint64_t seed = 0;
  std::optional<RunRead> like;
};

// ∂ metric / ∂ read, filled in by a GradientPass.
struct GradientValue {
  RunRead with_respect_to;
};

// --- Operations; inputs are ProgramNode::inputs ---

enum class Function {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kMaximum,
  kMinimum,
  kNegate,
  kAbsolute,
  kExp,
  kLog,
  kSqrt,
  kRsqrt,
  kRelu,
  kSilu,
  kGelu,
  kSigmoid,
  kTanh,
  kJumpRelu,
  kLess,
  kLessEqual,
  kEqual,
  kAnd,
  kOr,
  kNot,
  kWhere,
};
struct FunctionOp {
  Function function = Function::kAdd;
};
// x · weightᵀ or x · weight, then + bias if there is a third input.
struct LinearOp {
  enum class Weight { kOutIn, kInOut };
  Weight weight = Weight::kOutIn;
};
// Σ a b over the last dimension, kept with size 1.
struct DotOp {};
struct ReduceOp {
  enum class Kind { kSum, kMean, kMax, kMin, kNorm };
  enum class Dimensions { kDrop, kKeep };
  Kind kind = Kind::kSum;
  // Ascending, not negative; all of them where empty.
  std::vector<int64_t> dimensions;
  Dimensions reduced = Dimensions::kDrop;
};
struct SoftmaxOp {
  enum class Scale { kLinear, kLog };
  Scale scale = Scale::kLinear;
};
struct ClampOp {
  std::optional<double> low;
  std::optional<double> high;
};
struct TopKOp {
  enum class Part { kValues, kIndices };
  int64_t k = 0;
  Part part = Part::kValues;
};
// max(a, 0) of the k largest of the last dimension, else 0; ties to the smaller
// index.
struct TopKActivationOp {
  int64_t k = 0;
};
// Along a dimension, which stays: `indices`, or those of a second input, [m] or
// one number (rounded; out of range is INVALID).
struct GatherOp {
  int64_t dimension = 0;
  std::optional<std::vector<int64_t>> indices;
};
// The first input with the second, which broadcasts to the part, at `indices`.
struct ScatterOp {
  int64_t dimension = 0;
  std::vector<int64_t> indices;
};
struct ReshapeOp {};  // to ProgramNode::shape
struct PermuteOp {
  std::vector<int64_t> dimensions;
};
struct ConcatenateOp {
  int64_t dimension = 0;
};
struct UnembedOp {
  enum class Norm { kApply, kSkip };
  Norm norm = Norm::kApply;
};
// Once a pass of `run`: 1 if any element of the input is not 0 in this pass, or
// the latch was 1 in an earlier one; else 0. The nodes below it that read the
// run feed nothing else (RunRead::Passes::kEvery), and only writes of the same
// run depend on it, all at places that a pass reaches later than the reads.
// Never where a longrope recompute could come (it would not know what held at
// each token).
struct LatchOp {
  int run = 0;  // whose passes it remembers
};
struct RoundOp {
  DType dtype = DType::kF32;
};

using Operation =
    std::variant<CurrentValue, RunRead, ConstantValue, NoiseValue,
                 GradientValue, FunctionOp, LinearOp, DotOp, ReduceOp,
                 SoftmaxOp, ClampOp, TopKOp, TopKActivationOp, GatherOp,
                 ScatterOp, ReshapeOp, PermuteOp, ConcatenateOp, UnembedOp,
                 LatchOp, RoundOp>;

// A value. Inputs have smaller indices than the node.
struct ProgramNode {
  Operation operation;
  std::vector<int> inputs;
  // Of a node that depends on CurrentValue: in the prompt's pass.
  std::vector<int64_t> shape;
  // Whether it depends on CurrentValue.
  bool in_write = false;
  // Whether it is below or above a latch: computed anew in every pass.
  bool every_pass = false;
  // What to call it in errors, e.g. `program.nodes[3]` or
  // `runs[1].interventions[0].add.value`.
  std::string field;
};

// The selected part of a value is set to a node's value, which broadcasts to
// it. Writes of one run at one point apply in the order of the plan. Entries
// that a query cannot see are never written.
struct PlannedWrite {
  int run = 0;
  HookPoint point;
  ResolvedSelection selection;
  StepSelection steps;
  int value = 0;
  // Node: one number, or one a selected position; 0 leaves the part as it is.
  // −1 means always.
  int condition = -1;
  std::string field;
};

// A node's value as the tensor's elements from `offset` on.
struct PlannedOutput {
  int node = 0;
  int tensor = 0;
  int64_t offset = 0;
};

// A pass of a run that fills in gradients. It runs after every group that its
// metric reads.
struct GradientPass {
  int run = 0;
  // A node of one element.
  int metric = 0;
  // Nodes whose operation is GradientValue.
  std::vector<int> gradients;
};

// What is computed in one wave.
struct RunGroup {
  std::vector<int> runs;
  // Groups that must have ended before, ascending, all before this one.
  std::vector<int> after;
  // Index of the TracePlan's gradient pass that it is, whose run is the only
  // one of `runs`; −1 for the runs themselves.
  int gradient_pass = -1;
  // What its runs, as far as nothing that is shared computes them, need at most
  // while their wave is computed.
  int64_t workspace_bytes = 0;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_PROGRAM_H_
