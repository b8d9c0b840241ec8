#include "server/trace/plan_index.h"

#include <algorithm>
#include <numeric>
#include <variant>

#include "absl/container/flat_hash_set.h"

namespace phitap {
namespace {

std::vector<int> ExternalInputs(const TracePlan& plan,
                                const PlannedWrite& write) {
  std::vector<int> external;
  std::vector<int> pending = {write.value};
  if (write.condition >= 0) pending.push_back(write.condition);
  absl::flat_hash_set<int> seen;
  while (!pending.empty()) {
    const int node = pending.back();
    pending.pop_back();
    if (!seen.insert(node).second) continue;
    const ProgramNode& planned = plan.nodes[node];
    if (!planned.in_write) {
      external.push_back(node);
      continue;
    }
    pending.insert(pending.end(), planned.inputs.begin(), planned.inputs.end());
  }
  return external;
}

// `roots` and all that they are computed from, ascending.
std::vector<int> ConeOf(const TracePlan& plan, std::vector<int> roots) {
  absl::flat_hash_set<int> seen(roots.begin(), roots.end());
  while (!roots.empty()) {
    const int node = roots.back();
    roots.pop_back();
    for (const int input : plan.nodes[node].inputs) {
      if (seen.insert(input).second) roots.push_back(input);
    }
  }
  std::vector<int> cone(seen.begin(), seen.end());
  std::sort(cone.begin(), cone.end());
  return cone;
}

bool ReadsRun(const ProgramNode& node, int run) {
  const auto* read = std::get_if<RunRead>(&node.operation);
  return read != nullptr && read->run == run;
}

}  // namespace

PlanIndex::PlanIndex(const TracePlan& plan) : runs_(plan.runs.size()) {
  for (size_t n = 0; n < plan.nodes.size(); ++n) {
    const auto* read = std::get_if<RunRead>(&plan.nodes[n].operation);
    if (read != nullptr) runs_[read->run].reads.push_back(static_cast<int>(n));
    const auto* latch = std::get_if<LatchOp>(&plan.nodes[n].operation);
    if (latch != nullptr) {
      runs_[latch->run].latches.push_back(static_cast<int>(n));
    }
  }
  for (size_t w = 0; w < plan.writes.size(); ++w) {
    runs_[plan.writes[w].run].writes.push_back(static_cast<int>(w));
    external_inputs_.push_back(ExternalInputs(plan, plan.writes[w]));
  }
  for (size_t c = 0; c < plan.captures.size(); ++c) {
    runs_[plan.captures[c].run].captures.push_back(static_cast<int>(c));
  }
  for (size_t g = 0; g < plan.groups.size(); ++g) {
    if (plan.groups[g].gradient_pass >= 0) continue;
    for (const int run : plan.groups[g].runs) {
      runs_[run].group = static_cast<int>(g);
    }
  }
  AddConsumers(plan);
  AddOutputs(plan);
  for (const GradientPass& pass : plan.gradient_passes) {
    gradients_.push_back(GradientPartsOf(plan, pass));
  }
}

PlanIndex::GradientParts PlanIndex::GradientPartsOf(
    const TracePlan& plan, const GradientPass& pass) const {
  std::vector<int> roots = {pass.metric};
  for (const int write : runs_[pass.run].writes) {
    const std::vector<int>& external = external_inputs_[write];
    roots.insert(roots.end(), external.begin(), external.end());
  }
  GradientParts parts;
  absl::flat_hash_set<int> recorded;
  absl::flat_hash_set<int> constants;
  const auto depends = [&](int node) { return recorded.contains(node); };
  for (const int n : ConeOf(plan, roots)) {
    const ProgramNode& node = plan.nodes[n];
    const bool reads = ReadsRun(node, pass.run);
    if (reads) parts.reads.push_back(n);
    if (!reads &&
        std::none_of(node.inputs.begin(), node.inputs.end(), depends)) {
      continue;
    }
    recorded.insert(n);
    parts.recorded.push_back(n);
    for (const int input : node.inputs) {
      if (!depends(input)) constants.insert(input);
    }
  }
  for (const int root : roots) {
    if (!depends(root)) constants.insert(root);
  }
  parts.constants.assign(constants.begin(), constants.end());
  std::sort(parts.constants.begin(), parts.constants.end());
  return parts;
}

void PlanIndex::AddConsumers(const TracePlan& plan) {
  first_consumer_.assign(plan.nodes.size() + 1, 0);
  for (const ProgramNode& node : plan.nodes) {
    if (node.in_write) continue;
    for (const int input : node.inputs) ++first_consumer_[input + 1];
  }
  std::partial_sum(first_consumer_.begin(), first_consumer_.end(),
                   first_consumer_.begin());
  consumers_.resize(first_consumer_.back());
  std::vector<int64_t> next = first_consumer_;
  for (size_t n = 0; n < plan.nodes.size(); ++n) {
    if (plan.nodes[n].in_write) continue;
    for (const int input : plan.nodes[n].inputs) {
      consumers_[next[input]++] = static_cast<int>(n);
    }
  }
}

void PlanIndex::AddOutputs(const TracePlan& plan) {
  outputs_.resize(plan.outputs.size());
  std::iota(outputs_.begin(), outputs_.end(), 0);
  std::stable_sort(outputs_.begin(), outputs_.end(), [&](int a, int b) {
    return plan.outputs[a].node < plan.outputs[b].node;
  });
  for (const int output : outputs_) {
    output_nodes_.push_back(plan.outputs[output].node);
  }
}

absl::Span<const int> PlanIndex::outputs(int node) const {
  const auto [begin, end] =
      std::equal_range(output_nodes_.begin(), output_nodes_.end(), node);
  return absl::MakeConstSpan(outputs_).subspan(begin - output_nodes_.begin(),
                                               end - begin);
}

}  // namespace phitap
