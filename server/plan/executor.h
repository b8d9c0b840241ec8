// The seam between scheduling and the model: what runs a wave, without libtorch
// in sight.
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
struct WaveRow {
  std::shared_ptr<const TracePlan> plan;
  int run = 0;
  std::shared_ptr<ResultSink> sink;
  // The request's, from Executor::Begin.
  std::shared_ptr<TraceMemory> memory;
  // Index of the plan's gradient pass that the row is; −1 for the run itself.
  int gradient_pass = -1;
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

// Runs waves, one at a time, on the thread that owns the device. Not
// thread-safe.
class Executor {
 public:
  virtual ~Executor() = default;
  // Called once before a request's first wave.
  virtual std::shared_ptr<TraceMemory> Begin(
      std::shared_ptr<const TracePlan> plan) = 0;
  // Computes the next pass of every row (the prompt's, a generated token's or a
  // gradient's) and delivers what can be delivered. All rows are of one model,
  // numerics and attention; in numerics kTransformers and in a gradient pass
  // there is one row; the runs of a group are in one wave, except those that
  // have ended. Returns an outcome for each row. Never throws.
  virtual std::vector<RowOutcome> Run(absl::Span<const WaveRow> rows) = 0;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_EXECUTOR_H_
