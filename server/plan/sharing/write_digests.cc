#include "server/plan/sharing/write_digests.h"

#include <cstddef>
#include <utility>
#include <variant>

#include "absl/container/flat_hash_map.h"

namespace phitap {
namespace {

constexpr Digest kDynamic;

// Content of constants, each buffer looked at once.
class ConstantDigests {
 public:
  Digest Of(const HostTensor& value) {
    const std::pair<const std::byte*, size_t> place = {value.bytes.data(),
                                                       value.bytes.size()};
    const auto [found, is_new] = known_.try_emplace(place);
    if (is_new) found->second = DigestOf(value.bytes);
    return found->second;
  }

 private:
  absl::flat_hash_map<std::pair<const std::byte*, size_t>, Digest> known_;
};

// Adds an operation's fields; false for values of runs. Every operation is
// named, so that one with fields cannot slip through.
class FieldsOf {
 public:
  FieldsOf(const ProgramNode& node, ConstantDigests& constants,
           CanonicalBytes& bytes)
      : node_(node), constants_(constants), bytes_(bytes) {}

  bool operator()(const RunRead&) const { return false; }
  bool operator()(const GradientValue&) const { return false; }
  bool operator()(const LatchOp&) const { return false; }

  bool operator()(const CurrentValue&) const { return true; }
  bool operator()(const DotOp&) const { return true; }

  bool operator()(const ConstantValue& op) const {
    return Took(bytes_.Add(Number(op.value.dtype))
                    .Add(op.value.shape)
                    .Add(constants_.Of(op.value)));
  }
  // Its numbers are those of a place, whichever run is there.
  bool operator()(const NoiseValue& op) const {
    bytes_.Add(static_cast<int64_t>(op.seed)).Add(Number(op.like.has_value()));
    if (!op.like.has_value()) return true;
    return Took(
        bytes_.Add(op.like->point).Add(op.like->selection).Add(node_.shape));
  }
  bool operator()(const FunctionOp& op) const {
    return Took(bytes_.Add(Number(op.function)));
  }
  bool operator()(const LinearOp& op) const {
    return Took(bytes_.Add(Number(op.weight)));
  }
  bool operator()(const ReduceOp& op) const {
    return Took(
        bytes_.Add(Number(op.kind)).Add(op.dimensions).Add(Number(op.reduced)));
  }
  bool operator()(const SoftmaxOp& op) const {
    return Took(bytes_.Add(Number(op.scale)));
  }
  bool operator()(const ClampOp& op) const {
    return Took(bytes_.Add(op.low).Add(op.high));
  }
  bool operator()(const TopKOp& op) const {
    return Took(bytes_.Add(op.k).Add(Number(op.part)));
  }
  bool operator()(const TopKActivationOp& op) const {
    return Took(bytes_.Add(op.k));
  }
  bool operator()(const GatherOp& op) const {
    return Took(bytes_.Add(op.dimension).Add(op.indices));
  }
  bool operator()(const ScatterOp& op) const {
    return Took(bytes_.Add(op.dimension).Add(op.indices));
  }
  bool operator()(const ReshapeOp&) const {
    return Took(bytes_.Add(node_.shape));
  }
  bool operator()(const PermuteOp& op) const {
    return Took(bytes_.Add(op.dimensions));
  }
  bool operator()(const ConcatenateOp& op) const {
    return Took(bytes_.Add(op.dimension));
  }
  bool operator()(const UnembedOp& op) const {
    return Took(bytes_.Add(Number(op.norm)));
  }
  bool operator()(const RoundOp& op) const {
    return Took(bytes_.Add(Number(op.dtype)));
  }

 private:
  static bool Took(const CanonicalBytes&) { return true; }
  template <typename Field>
  static int64_t Number(Field field) {
    return static_cast<int64_t>(field);
  }

  const ProgramNode& node_;
  ConstantDigests& constants_;
  CanonicalBytes& bytes_;
};

// Nodes that writes need.
std::vector<bool> NodesOfWrites(const TracePlan& plan) {
  std::vector<bool> needed(plan.nodes.size());
  for (const PlannedWrite& write : plan.writes) {
    needed[write.value] = true;
    if (write.condition >= 0) needed[write.condition] = true;
  }
  for (size_t n = plan.nodes.size(); n-- > 0;) {
    if (!needed[n]) continue;
    for (const int input : plan.nodes[n].inputs) needed[input] = true;
  }
  return needed;
}

}  // namespace

WriteDigests::WriteDigests(const TracePlan& plan) {
  if (plan.writes.empty()) return;
  nodes_.resize(plan.nodes.size());
  const std::vector<bool> needed = NodesOfWrites(plan);
  ConstantDigests constants;
  for (size_t n = 0; n < plan.nodes.size(); ++n) {
    if (!needed[n]) continue;
    const ProgramNode& node = plan.nodes[n];
    CanonicalBytes bytes;
    bytes.Add(static_cast<int64_t>(node.operation.index()));
    bool is_static =
        std::visit(FieldsOf(node, constants, bytes), node.operation);
    for (const int input : node.inputs) {
      is_static = is_static && nodes_[input] != kDynamic;
      bytes.Add(nodes_[input]);
    }
    if (is_static) nodes_[n] = bytes.Hash();
  }
}

Digest WriteDigests::Of(const PlannedWrite& write) const {
  CanonicalBytes bytes;
  bytes.Add(write.point).Add(write.selection);
  for (const int node : {write.value, write.condition}) {
    bytes.Add(int64_t{node >= 0});
    if (node < 0) continue;
    if (nodes_[node] == kDynamic) return kDynamic;
    bytes.Add(nodes_[node]);
  }
  return bytes.Hash();
}

}  // namespace phitap
