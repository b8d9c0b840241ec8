#include "server/plan/sharing/position_mixing.h"

#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "server/plan/edits/edited_part.h"

namespace phitap {
namespace {

// Whether an operation over values laid out like the part keeps positions
// apart. What is not named does not.
class KeepsApart {
 public:
  KeepsApart(const TracePlan& plan, const ProgramNode& node, Hook hook)
      : plan_(plan),
        node_(node),
        last_(static_cast<int64_t>(EntryOf(hook).dimensions.size()) - 1),
        along_last_(!IsPattern(hook)) {}

  bool operator()(const CurrentValue&) const { return true; }
  bool operator()(const NoiseValue&) const { return true; }
  bool operator()(const FunctionOp&) const { return true; }
  bool operator()(const ClampOp&) const { return true; }
  bool operator()(const RoundOp&) const { return true; }

  bool operator()(const LinearOp&) const { return OnlyFirstInput(); }
  bool operator()(const DotOp&) const { return along_last_; }
  bool operator()(const ReduceOp& op) const {
    return along_last_ && op.dimensions == std::vector<int64_t>{last_} &&
           op.reduced == ReduceOp::Dimensions::kKeep;
  }
  bool operator()(const SoftmaxOp&) const { return along_last_; }
  bool operator()(const TopKOp&) const { return along_last_; }
  bool operator()(const TopKActivationOp&) const { return along_last_; }
  bool operator()(const GatherOp& op) const {
    return op.dimension == last_ && OnlyFirstInput();
  }
  bool operator()(const ScatterOp& op) const {
    return along_last_ && op.dimension == last_;
  }
  bool operator()(const ConcatenateOp& op) const {
    return along_last_ && op.dimension == last_;
  }
  bool operator()(const UnembedOp&) const { return along_last_; }

  template <typename Other>
  bool operator()(const Other&) const {
    return false;
  }

 private:
  // Weights and indices do not lie over the part.
  bool OnlyFirstInput() const {
    for (size_t i = 1; i < node_.inputs.size(); ++i) {
      if (plan_.nodes[node_.inputs[i]].in_write) return false;
    }
    return along_last_;
  }

  const TracePlan& plan_;
  const ProgramNode& node_;
  const int64_t last_;
  const bool along_last_;
};

}  // namespace

bool MixesPositions(const TracePlan& plan, const PlannedWrite& write) {
  const Hook hook = write.point.hook;
  const size_t rank = EntryOf(hook).dimensions.size();
  std::vector<int> pending = {write.value};
  if (write.condition >= 0) pending.push_back(write.condition);
  absl::flat_hash_set<int> seen;
  while (!pending.empty()) {
    const int index = pending.back();
    pending.pop_back();
    const ProgramNode& node = plan.nodes[index];
    // What stands for all positions is cut to the part.
    if (!node.in_write || !seen.insert(index).second) continue;
    if (node.shape.size() != rank) return true;
    if (!std::visit(KeepsApart(plan, node, hook), node.operation)) return true;
    pending.insert(pending.end(), node.inputs.begin(), node.inputs.end());
  }
  return false;
}

}  // namespace phitap
