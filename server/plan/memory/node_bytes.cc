#include "server/plan/memory/node_bytes.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>
#include <variant>

#include "absl/container/flat_hash_set.h"
#include "server/plan/captures/reduction.h"
#include "server/plan/program/shapes.h"
#include "server/plan/saturating.h"

namespace phitap {
namespace {

constexpr int64_t kFloat32Bytes = 4;
// A view keeps storage of up to twice its size.
constexpr int64_t kStorage = 2;
// Before and after all groups.
constexpr int kBefore = -1;
constexpr int kAfterAll = std::numeric_limits<int>::max();

int64_t Float32Bytes(const ProgramNode& node) {
  return SaturatingMultiply(SaturatingElements(node.shape), kFloat32Bytes);
}

class NodeCounter {
 public:
  NodeCounter(const TracePlan& plan, DType compute_dtype)
      : plan_(plan),
        compute_dtype_(compute_dtype),
        group_of_run_(plan.runs.size(), kBefore),
        made_(plan.nodes.size(), kBefore),
        last_use_(plan.nodes.size(), kBefore) {}

  NodeBytes Count() {
    bytes_.of_group.resize(plan_.groups.size());
    FindGroups();
    FindLastUses();
    for (size_t n = 0; n < plan_.nodes.size(); ++n) {
      AddValue(static_cast<int>(n));
      AddStep(plan_.nodes[n]);
    }
    AddWrites();
    return std::move(bytes_);
  }

 private:
  // In which group each node's value is there.
  void FindGroups() {
    std::vector<int> group_of_gradient(plan_.nodes.size(), kBefore);
    for (size_t g = 0; g < plan_.groups.size(); ++g) {
      const RunGroup& group = plan_.groups[g];
      if (group.gradient_pass < 0) {
        for (const int run : group.runs) {
          group_of_run_[run] = static_cast<int>(g);
        }
        continue;
      }
      for (const int node :
           plan_.gradient_passes[group.gradient_pass].gradients) {
        group_of_gradient[node] = static_cast<int>(g);
      }
    }
    for (size_t n = 0; n < plan_.nodes.size(); ++n) {
      const ProgramNode& node = plan_.nodes[n];
      made_[n] = group_of_gradient[n];
      if (const auto* read = std::get_if<RunRead>(&node.operation)) {
        made_[n] = group_of_run_[read->run];
      }
      for (const int input : node.inputs) {
        made_[n] = std::max(made_[n], made_[input]);
      }
    }
  }

  // A node uses its inputs when it is made, or when it is needed first.
  void FindLastUses() {
    for (const PlannedOutput& output : plan_.outputs) {
      Use(output.node, made_[output.node]);
    }
    // A gradient pass computes its metric, and what the run's writes need, once
    // more; a run that generates comes back wave after wave.
    std::vector<bool> comes_back(plan_.runs.size());
    for (const GradientPass& pass : plan_.gradient_passes) {
      Use(pass.metric, kAfterAll);
      comes_back[pass.run] = true;
    }
    for (const PlannedWrite& write : plan_.writes) {
      const bool again =
          comes_back[write.run] || plan_.runs[write.run].generation.has_value();
      const int group = again ? kAfterAll : group_of_run_[write.run];
      Use(write.value, group);
      if (write.condition >= 0) Use(write.condition, group);
    }
    for (size_t n = plan_.nodes.size(); n-- > 0;) {
      const int last = std::max(made_[n], last_use_[n]);
      for (const int input : plan_.nodes[n].inputs) Use(input, last);
    }
  }

  void Use(int node, int group) {
    last_use_[node] = std::max(last_use_[node], group);
  }

  void AddValue(int n) {
    const ProgramNode& node = plan_.nodes[n];
    if (const auto* constant = std::get_if<ConstantValue>(&node.operation)) {
      const auto& bytes = constant->value.bytes;
      if (!counted_.insert(bytes.data()).second) return;
      bytes_.constants =
          SaturatingAdd(bytes_.constants, static_cast<int64_t>(bytes.size()));
      return;
    }
    if (node.in_write) return;
    int64_t size_bytes = Float32Bytes(node);
    if (const auto* read = std::get_if<RunRead>(&node.operation)) {
      size_bytes = SaturatingMultiply(
          SaturatingElements(node.shape),
          kStorage * SizeInBytes(ValueType(read->point.hook, compute_dtype_)));
    }
    const bool held = made_[n] == kBefore || last_use_[n] > made_[n];
    int64_t& sum = held ? bytes_.held : bytes_.of_group[made_[n]];
    sum = SaturatingAdd(sum, size_bytes);
  }

  // Inputs in float32, the value and what libtorch makes on the way.
  void AddStep(const ProgramNode& node) {
    int64_t elements = SaturatingMultiply(2, SaturatingElements(node.shape));
    for (const int input : node.inputs) {
      elements =
          SaturatingAdd(elements, SaturatingElements(plan_.nodes[input].shape));
    }
    bytes_.largest_step = std::max(
        bytes_.largest_step, SaturatingMultiply(elements, 2 * kFloat32Bytes));
  }

  // What is computed over the part, which is there three times itself: as it
  // was, as it is and on its way between.
  void AddWrites() {
    for (const PlannedWrite& write : plan_.writes) {
      int64_t size_bytes = 0;
      std::vector<int> pending = {write.value};
      absl::flat_hash_set<int> seen;
      while (!pending.empty()) {
        const int n = pending.back();
        pending.pop_back();
        const ProgramNode& node = plan_.nodes[n];
        if (!node.in_write || !seen.insert(n).second) continue;
        const int64_t copies =
            std::holds_alternative<CurrentValue>(node.operation) ? 3 : 1;
        size_bytes = SaturatingAdd(
            size_bytes, SaturatingMultiply(copies, Float32Bytes(node)));
        pending.insert(pending.end(), node.inputs.begin(), node.inputs.end());
      }
      largest_write_ = std::max(largest_write_, size_bytes);
    }
    bytes_.largest_step = SaturatingAdd(bytes_.largest_step, largest_write_);
  }

  const TracePlan& plan_;
  const DType compute_dtype_;
  std::vector<int> group_of_run_;
  // By node.
  std::vector<int> made_;
  std::vector<int> last_use_;
  absl::flat_hash_set<const std::byte*> counted_;
  int64_t largest_write_ = 0;
  NodeBytes bytes_;
};

}  // namespace

NodeBytes CountNodeBytes(const TracePlan& plan, DType compute_dtype) {
  return NodeCounter(plan, compute_dtype).Count();
}

}  // namespace phitap
