// What a request keeps between its waves.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_TRACE_REQUEST_MEMORY_H_
#define PHITAP_SERVER_TRACE_REQUEST_MEMORY_H_

#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "server/model/rotary.h"
#include "server/plan/executor.h"
#include "server/spec/model_spec.h"
#include "server/trace/generation.h"
#include "server/trace/node_store.h"
#include "server/trace/output_tensors.h"
#include "server/trace/plan_index.h"

namespace phitap {

// Only what a pass that ended well has made gets in here, so a pass can be run
// again. Not thread-safe; spec and rotary must outlive it.
class RequestMemory final : public TraceMemory {
 public:
  RequestMemory(std::shared_ptr<const TracePlan> plan, const ModelSpec& spec,
                const Rotary& rotary);

  const TracePlan& plan() const { return *plan_; }
  const PlanIndex& index() const { return index_; }
  NodeStore& nodes() { return nodes_; }
  OutputTensors& outputs() { return outputs_; }

  // Null for a run that does not generate.
  Generation* GenerationOf(int run);

  // Hands a tensor over unless it was before, by a pass that failed.
  void Deliver(ResultSink& sink, int tensor, HostTensor value);

  // Whether the latch was 1 in a pass before.
  bool Latched(int node) const { return latched_.contains(node); }
  void Latch(int node) { latched_.insert(node); }

  // Nothing more will be computed of the run, or of the gradient pass: lets go
  // of what it held. More than once does no harm.
  void EndRun(int run);
  void EndGradientPass(int pass);

 private:
  const std::shared_ptr<const TracePlan> plan_;
  const ModelSpec& spec_;
  const Rotary& rotary_;
  const PlanIndex index_;
  NodeStore nodes_;
  OutputTensors outputs_;
  std::vector<bool> delivered_;
  std::vector<bool> ended_;
  std::vector<bool> ended_passes_;
  absl::flat_hash_map<int, std::unique_ptr<Generation>> generations_;
  absl::flat_hash_set<int> latched_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_TRACE_REQUEST_MEMORY_H_
