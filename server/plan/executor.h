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
};

// One run of a plan, and where its values go.
struct WaveRow {
  std::shared_ptr<const TracePlan> plan;
  int run = 0;
  std::shared_ptr<ResultSink> sink;
};

// Runs waves, one at a time, on the thread that owns the device. Not
// thread-safe.
class Executor {
 public:
  virtual ~Executor() = default;
  // Computes every row and delivers its captures. All rows are of one model,
  // numerics and attention; in numerics kTransformers there is one row. Returns
  // a status for each row: OK, CANCELLED, INTERNAL or RESOURCE_EXHAUSTED (out
  // of memory). Never throws.
  virtual std::vector<absl::Status> Run(absl::Span<const WaveRow> rows) = 0;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_EXECUTOR_H_
