// Values of a request's nodes while a wave is under way.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_TRACE_NODE_VALUES_H_
#define PHITAP_SERVER_TRACE_NODE_VALUES_H_

#include <ATen/core/Tensor.h>

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "server/trace/evaluate.h"
#include "server/trace/plan_index.h"
#include "server/trace/request_memory.h"

namespace phitap {

// Reads of the wave, what the memory has, and what is computed from the two,
// each node once and on demand. Nothing of it is in the memory before it is
// committed. Not thread-safe; memory and model outlive it.
class NodeValues {
 public:
  // `gradient` is set in a gradient pass: what depends on the run itself is
  // then taken from the pass alone, never from the memory.
  NodeValues(RequestMemory& memory, const EvaluationRules& rules,
             const PlanIndex::GradientParts* gradient = nullptr);

  const TracePlan& plan() const { return memory_.plan(); }
  RequestMemory& memory() { return memory_; }
  const EvaluationRules& rules() const { return rules_; }

  // A RunRead's value, of this wave.
  void PutRead(int node, at::Tensor value);
  // The reads that must come before the node's value can be computed.
  std::vector<int> MissingReads(absl::Span<const int> nodes) const;
  // Throws c10::Error where a read is missing or as Evaluate does.
  at::Tensor Value(int node);

  // Those of `reads` that are there go to the memory.
  void CommitReads(absl::Span<const int> reads);
  // What was computed goes to the memory: only once every read has.
  void CommitComputed();

 private:
  at::Tensor Find(int node) const;
  at::Tensor Make(int node) const;

  RequestMemory& memory_;
  const EvaluationRules rules_;
  const PlanIndex::GradientParts* const gradient_;
  absl::flat_hash_map<int, at::Tensor> values_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_TRACE_NODE_VALUES_H_
