#include "server/trace/node_store.h"

#include <utility>
#include <variant>

namespace phitap {
namespace {

// Whether the value comes from a forward.
bool IsMade(const Operation& operation) {
  return std::holds_alternative<RunRead>(operation) ||
         std::holds_alternative<GradientValue>(operation);
}

}  // namespace

NodeStore::NodeStore(const TracePlan& plan, const PlanIndex& index)
    : plan_(plan),
      index_(index),
      values_(plan.nodes.size()),
      uses_(plan.nodes.size(), 0),
      uses_inputs_(plan.nodes.size(), false),
      missing_(plan.nodes.size(), 0) {
  for (size_t n = 0; n < plan.nodes.size(); ++n) {
    const ProgramNode& node = plan.nodes[n];
    if (node.in_write || IsMade(node.operation)) {
      missing_[n] = 1;
      continue;
    }
    for (const int input : node.inputs) missing_[n] += missing_[input] > 0;
    if (missing_[n] > 0) continue;
    const absl::Span<const int> outputs = index.outputs(static_cast<int>(n));
    ready_outputs_.insert(ready_outputs_.end(), outputs.begin(), outputs.end());
  }
  for (const PlannedOutput& output : plan.outputs) Hold({output.node});
}

void NodeStore::Hold(absl::Span<const int> nodes) {
  std::vector<int> pending(nodes.begin(), nodes.end());
  while (!pending.empty()) {
    const int node = pending.back();
    pending.pop_back();
    if (uses_[node]++ > 0 || values_[node].defined()) continue;
    uses_inputs_[node] = true;
    const std::vector<int>& inputs = plan_.nodes[node].inputs;
    pending.insert(pending.end(), inputs.begin(), inputs.end());
  }
}

void NodeStore::Release(absl::Span<const int> nodes) {
  std::vector<int> pending(nodes.begin(), nodes.end());
  while (!pending.empty()) {
    const int node = pending.back();
    pending.pop_back();
    if (--uses_[node] > 0) continue;
    values_[node] = at::Tensor();
    if (!StopsUsingInputs(node)) continue;
    const std::vector<int>& inputs = plan_.nodes[node].inputs;
    pending.insert(pending.end(), inputs.begin(), inputs.end());
  }
}

void NodeStore::Put(int node, at::Tensor value) {
  if (Alive(node)) {
    values_[node] = std::move(value);
    if (StopsUsingInputs(node)) Release(plan_.nodes[node].inputs);
  }
  if (IsMade(plan_.nodes[node].operation)) MarkReady(node);
}

bool NodeStore::StopsUsingInputs(int node) {
  const bool used = uses_inputs_[node];
  uses_inputs_[node] = false;
  return used;
}

void NodeStore::MarkReady(int node) {
  if (missing_[node] == 0) return;
  missing_[node] = 0;
  std::vector<int> ready = {node};
  while (!ready.empty()) {
    const int next = ready.back();
    ready.pop_back();
    const absl::Span<const int> outputs = index_.outputs(next);
    ready_outputs_.insert(ready_outputs_.end(), outputs.begin(), outputs.end());
    for (const int consumer : index_.consumers(next)) {
      if (--missing_[consumer] == 0) ready.push_back(consumer);
    }
  }
}

std::vector<int> NodeStore::TakeReadyOutputs() {
  return std::exchange(ready_outputs_, {});
}

}  // namespace phitap
