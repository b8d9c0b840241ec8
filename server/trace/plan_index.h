// Finds what belongs to a run or a node of a plan without going through all of
// the plan. SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_TRACE_PLAN_INDEX_H_
#define PHITAP_SERVER_TRACE_PLAN_INDEX_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "server/plan/trace_plan.h"

namespace phitap {

// Immutable; the plan must outlive it.
class PlanIndex {
 public:
  // What one run takes part in: indices into the plan, ascending.
  struct RunParts {
    // Nodes whose operation is a RunRead of the run.
    std::vector<int> reads;
    std::vector<int> writes;
    std::vector<int> captures;
    // Nodes whose operation is a LatchOp of the run.
    std::vector<int> latches;
    int group = -1;
  };

  // What a gradient pass computes anew, ascending.
  struct GradientParts {
    // Nodes that its metric or the run's writes depend on and that depend
    // themselves on values of the run.
    std::vector<int> recorded;
    // Those of them that are reads.
    std::vector<int> reads;
    // Nodes that do not depend on the run and that those do, or that the run's
    // writes take as they are: each once.
    std::vector<int> constants;
  };

  explicit PlanIndex(const TracePlan& plan);

  const RunParts& parts(int run) const { return runs_[run]; }
  const GradientParts& gradient(int pass) const { return gradients_[pass]; }
  // The nodes that a write takes from outside, each once: those that its value
  // and condition are computed from and that do not depend on CurrentValue.
  const std::vector<int>& external_inputs(int write) const {
    return external_inputs_[write];
  }
  // Nodes that have `node` as an input, once for each time, without those that
  // depend on CurrentValue.
  absl::Span<const int> consumers(int node) const {
    return absl::MakeConstSpan(consumers_)
        .subspan(first_consumer_[node],
                 first_consumer_[node + 1] - first_consumer_[node]);
  }
  // Indices of TracePlan::outputs.
  absl::Span<const int> outputs(int node) const;

 private:
  void AddConsumers(const TracePlan& plan);
  void AddOutputs(const TracePlan& plan);
  GradientParts GradientPartsOf(const TracePlan& plan,
                                const GradientPass& pass) const;

  std::vector<RunParts> runs_;
  std::vector<GradientParts> gradients_;
  std::vector<std::vector<int>> external_inputs_;
  std::vector<int64_t> first_consumer_;
  std::vector<int> consumers_;
  // Outputs by node, and each one's node, ascending.
  std::vector<int> outputs_;
  std::vector<int> output_nodes_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_TRACE_PLAN_INDEX_H_
