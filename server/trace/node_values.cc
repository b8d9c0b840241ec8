#include "server/trace/node_values.h"

#include <ATen/ops/full.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/container/flat_hash_set.h"
#include "server/trace/demand.h"
#include "server/trace/noise.h"

namespace phitap {
namespace {

bool IsRead(const ProgramNode& node) {
  return std::holds_alternative<RunRead>(node.operation);
}

}  // namespace

NodeValues::NodeValues(RequestMemory& memory, const EvaluationRules& rules,
                       const PlanIndex::GradientParts* gradient)
    : memory_(memory), rules_(rules), gradient_(gradient) {}

void NodeValues::PutRead(int node, at::Tensor value) {
  values_[node] = std::move(value);
}

at::Tensor NodeValues::Find(int node) const {
  const auto found = values_.find(node);
  if (found != values_.end()) return found->second;
  if (gradient_ != nullptr &&
      std::binary_search(gradient_->recorded.begin(), gradient_->recorded.end(),
                         node)) {
    return {};
  }
  const at::Tensor* kept = memory_.nodes().Find(node);
  return kept == nullptr ? at::Tensor() : *kept;
}

std::vector<int> NodeValues::MissingReads(absl::Span<const int> nodes) const {
  std::vector<int> missing;
  std::vector<int> pending(nodes.begin(), nodes.end());
  absl::flat_hash_set<int> seen;
  while (!pending.empty()) {
    const int node = pending.back();
    pending.pop_back();
    if (Find(node).defined() || !seen.insert(node).second) continue;
    const ProgramNode& planned = plan().nodes[node];
    if (IsRead(planned)) missing.push_back(node);
    pending.insert(pending.end(), planned.inputs.begin(), planned.inputs.end());
  }
  return missing;
}

at::Tensor NodeValues::Value(int node) {
  return Demand(
      node, plan().nodes, [this](int n) { return Find(n); },
      [this](int n) { values_[n] = Make(n); });
}

at::Tensor NodeValues::Make(int node) const {
  const ProgramNode& planned = plan().nodes[node];
  const auto* gradient = std::get_if<GradientValue>(&planned.operation);
  TORCH_CHECK(!IsRead(planned) && gradient == nullptr, planned.field,
              ": the value that it reads has not been computed");
  if (const auto* noise = std::get_if<NoiseValue>(&planned.operation)) {
    const RunRead& like = *noise->like;
    return StandardNormal(
        PlaceOf(noise->seed, like.point, like.selection, rules_.model.spec(),
                static_cast<int64_t>(plan().runs[like.run].ids.size())));
  }
  std::vector<at::Tensor> inputs;
  inputs.reserve(planned.inputs.size());
  for (const int input : planned.inputs) inputs.push_back(Find(input));
  if (std::holds_alternative<LatchOp>(planned.operation)) {
    // A gradient pass is the prompt's, before which nothing was latched.
    const bool before = gradient_ == nullptr && memory_.Latched(node);
    const bool now = before || inputs[0].ne(0).any().item<bool>();
    return at::full(planned.shape, now ? 1.0 : 0.0, at::kFloat);
  }
  return Evaluate(planned, inputs, rules_);
}

void NodeValues::CommitReads(absl::Span<const int> reads) {
  for (const int node : reads) {
    const auto found = values_.find(node);
    if (found == values_.end()) continue;
    memory_.nodes().Put(node, found->second);
  }
}

void NodeValues::CommitComputed() {
  for (const auto& [node, value] : values_) {
    const ProgramNode& planned = plan().nodes[node];
    if (planned.every_pass || IsRead(planned)) continue;
    memory_.nodes().Put(node, value);
  }
}

}  // namespace phitap
