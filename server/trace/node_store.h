// Values of a request's nodes from one wave to the next: each is kept as long
// as something that is still to come needs it.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_TRACE_NODE_STORE_H_
#define PHITAP_SERVER_TRACE_NODE_STORE_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "server/plan/trace_plan.h"
#include "server/trace/plan_index.h"

namespace phitap {

// Holds no node that depends on CurrentValue. A node is alive while a write, an
// output, a gradient pass or a node that is alive itself and has no value yet
// is to use it. Not thread-safe; plan and index must outlive it.
class NodeStore {
 public:
  NodeStore(const TracePlan& plan, const PlanIndex& index);

  // Null where the value is not there (yet, or any more).
  const at::Tensor* Find(int node) const {
    return values_[node].defined() ? &values_[node] : nullptr;
  }
  bool Alive(int node) const { return uses_[node] > 0; }

  // Takes a value; that of a node which is not alive goes at once.
  void Put(int node, at::Tensor value);

  // One user more, or fewer, for each of the nodes.
  void Hold(absl::Span<const int> nodes);
  void Release(absl::Span<const int> nodes);

  // Outputs that can be computed now and could not be before the last call.
  std::vector<int> TakeReadyOutputs();

 private:
  void MarkReady(int node);
  // Whether the node held its inputs: from now on it does not.
  bool StopsUsingInputs(int node);

  const TracePlan& plan_;
  const PlanIndex& index_;
  std::vector<at::Tensor> values_;
  std::vector<int64_t> uses_;
  std::vector<bool> uses_inputs_;
  // Inputs of each node that cannot be computed yet; a read or a gradient waits
  // for itself.
  std::vector<int> missing_;
  std::vector<int> ready_outputs_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_TRACE_NODE_STORE_H_
