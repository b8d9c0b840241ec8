// The seam between scheduling and the model: what a wave is and what runs it,
// without libtorch in sight.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_EXECUTOR_H_
#define PHITAP_SERVER_PLAN_EXECUTOR_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "server/base/host_tensor.h"
#include "server/plan/trace_plan.h"

namespace phitap {

// A token that a run went on with.
struct GeneratedToken {
  int run = 0;
  // From 1.
  int step = 0;
  int32_t id = 0;
  // Before temperature and truncation.
  double log_probability = 0;
};

// Takes the values of one request as they are made. Called on the compute
// thread; must not block.
class ResultSink {
 public:
  virtual ~ResultSink() = default;
  // Whether nobody waits for the results of `run` any more: asked between
  // layers.
  virtual bool Cancelled(int run) const = 0;
  // `tensor` indexes TracePlan::tensors; each is delivered once.
  virtual void Deliver(int tensor, HostTensor value) = 0;
  // One more of the run's Reach::layer_count layers is done; `token_count`
  // tokens were computed in it.
  virtual void LayerDone(int run, int64_t token_count) = 0;
  virtual void DeliverToken(const GeneratedToken& token) = 0;
};

// What an executor keeps of a request between its waves: values that later
// groups read, generations under way. Touched on the compute thread only.
class TraceMemory {
 public:
  virtual ~TraceMemory() = default;
};

// One run of a plan, and where its values go.
struct WaveRun {
  std::shared_ptr<const TracePlan> plan;
  int run = 0;
  std::shared_ptr<ResultSink> sink;
  // The request's, from Executor::Begin.
  std::shared_ptr<TraceMemory> memory;
  // Index of the plan's gradient pass that the run is in the wave for; −1 for
  // the run itself.
  int gradient_pass = -1;
  // The row of the wave whose values the run has; −1 has the executor make a
  // row that is the run's alone. Always −1 in kTransformers, in a gradient pass
  // and past the prompt's pass. Of generating runs that name one row the first
  // has it, since it fills one cache of keys and values; the executor makes
  // rows of their own for the others, so a row below it, from the last position
  // on, is cheaper.
  int row = -1;
};

// A kept row's states, in one executor: see WaveRow::keep_as. Never used twice.
using RootId = int64_t;
inline constexpr RootId kNoRoot = -1;

// What is computed for one or more runs of a wave: the rectangle of layers from
// `first_layer` on and positions from `first_position` to before `token_count`.
// Every other value of the run is its parent's, which has the same tokens up to
// first_position (in all of the row's positions where first_layer > 0; it may
// have more), and whose values there none of the row's writes has reached.
// first_layer <= reach.layer_count. Where first_position == token_count there
// is nothing to compute, and every value is the parent's.
//
// A row with first_layer l > 0 takes over its parent's residual stream behind
// layer l − 1, before the writes at layer_output there: those that it has
// itself apply to its own positions. l may be the number of layers: then it has
// nothing but final norm and head, for the positions of its reach.
struct WaveRow {
  // Index of the run (in WavePlan::runs) whose first token_count tokens the row
  // has, and whose rotary factors.
  int leader = 0;
  int64_t token_count = 0;
  // Indices into the leader's plan: the writes that apply in the row, in their
  // order. A row that several runs have, or that is a parent, has only writes
  // that need no values of runs.
  std::vector<int> writes;
  int first_layer = 0;
  int64_t first_position = 0;
  // A row of the wave, with a smaller index, or a row of an earlier one; unset
  // where the rectangle is everything.
  int parent = -1;
  RootId parent_root = kNoRoot;
  // Of `writes`, those that alone make the row another than its parent, which
  // then computes all that is asked of the row: as long as none of them has
  // changed a bit, its values are the parent's. Empty where the row must not
  // give way to its parent, whatever its writes do: other tokens, writes that
  // only the parent has, a parent of an earlier wave or one that goes less far.
  std::vector<int> differing_writes;
  // What is computed in the rectangle; positions count from the run's first.
  // Covers what the row's runs and the rows below it ask of it.
  Reach reach;
  // Not kNoRoot: the row has no parent, and what it computes (keys, values,
  // residual streams) is to be kept under this name for later waves, if the
  // row ends well.
  RootId keep_as = kNoRoot;
};

struct WavePlan {
  std::vector<WaveRun> runs;
  std::vector<WaveRow> rows;
};

enum class FinishReason { kNone, kStop, kLength };

struct RowOutcome {
  // OK, CANCELLED, INVALID_ARGUMENT (a computed value that cannot be used),
  // FAILED_PRECONDITION (a run of the wave that it reads failed), INTERNAL or
  // RESOURCE_EXHAUSTED (out of memory).
  absl::Status status;
  // Whether the run generates on: its group must be run again. Never with an
  // error.
  bool goes_on = false;
  // Why a generation ended.
  FinishReason finish_reason = FinishReason::kNone;
};

// A wave under way. Destroying it gives it up. Not thread-safe.
class RunningWave {
 public:
  virtual ~RunningWave() = default;
  // Computes the next layer; the first call embeds before it, the last one goes
  // on to the logits. A gradient pass is one call. Returns whether there is
  // more to compute; false, too, once the wave has failed. Never throws.
  virtual bool Step() = 0;
  // After the last step: keeps what is to be kept, chooses tokens, delivers
  // what is complete. An outcome for each of the plan's runs. Never throws.
  virtual std::vector<RowOutcome> Finish() = 0;
  // Roots that the wave was to keep and that there are now, after Finish.
  virtual std::vector<RootId> kept_roots() const = 0;
};

// Runs waves on the thread that owns the device; several may be under way, one
// takes a step at a time. Not thread-safe. Outlives its waves.
class Executor {
 public:
  virtual ~Executor() = default;
  // Called once before a request's first wave.
  virtual std::shared_ptr<TraceMemory> Begin(
      std::shared_ptr<const TracePlan> plan) = 0;
  // The next pass of every run (the prompt's, a generated token's or a
  // gradient's). All runs are of one model, numerics and attention; in numerics
  // kTransformers and in a gradient pass there is one run; the runs of a group
  // are in one wave, except those that have ended. A run is in one wave at a
  // time. Never throws: what goes wrong is in the outcomes.
  virtual std::unique_ptr<RunningWave> Start(WavePlan plan) = 0;
  // Bytes that a kept row of so many tokens and layers holds.
  virtual int64_t RootBytes(int layer_count, int64_t token_count) const = 0;
  // Frees a kept row; waves under way may still use it.
  virtual void ForgetRoot(RootId root) = 0;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_EXECUTOR_H_
