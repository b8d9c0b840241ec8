#include "server/plan/program/program_order.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/plan/program/node_index.h"
#include "server/plan/runs/plan_runs.h"
#include "server/spec/quote.h"

namespace phitap {
namespace {

constexpr size_t kMostNames = 16;

std::string FieldOfNode(int node) {
  return absl::StrCat("program.nodes[", node, "]");
}

absl::StatusOr<NodeIndex> IndexNames(const v1::Program& program,
                                     const Limits& limits) {
  NodeIndex index;
  for (int i = 0; i < program.nodes_size(); ++i) {
    const std::string& name = program.nodes(i).name();
    const std::string field = FieldOfNode(i) + ".name";
    if (name.empty()) {
      return InvalidField({.field = field,
                           .problem = "is empty",
                           .valid = "a name of its own for each node"});
    }
    RETURN_IF_ERROR(CheckLabel(name, limits, field));
    const auto [found, is_new] = index.nodes.emplace(name, i);
    if (is_new) continue;
    return InvalidField(
        {.field = field,
         .problem = absl::StrCat(Quoted(name), " is the name of ",
                                 FieldOfNode(found->second), " as well"),
         .valid = "a name of its own for each node"});
  }
  return index;
}

// The nodes that a node names.
absl::StatusOr<std::vector<int>> NodesNamedBy(const v1::Node& node,
                                              const NodeIndex& index,
                                              const std::string& field) {
  std::vector<int> named;
  for (int i = 0; i < node.inputs_size(); ++i) {
    ASSIGN_OR_RETURN(
        const int input,
        index.Find(node.inputs(i), absl::StrCat(field, ".inputs[", i, "]")));
    named.push_back(input);
  }
  if (node.has_gradient()) {
    ASSIGN_OR_RETURN(const int of,
                     index.Find(node.gradient().of(), field + ".gradient.of"));
    named.push_back(of);
  }
  if (node.has_metric() && node.metric().kind_case() == v1::Metric::kNode) {
    ASSIGN_OR_RETURN(const int counted,
                     index.Find(node.metric().node(), field + ".metric.node"));
    named.push_back(counted);
  }
  return named;
}

// Walks the nodes in depth, without recursion: a program may be one chain.
class OrderWalk {
 public:
  OrderWalk(const v1::Program& program, std::vector<std::vector<int>> named)
      : program_(program), named_(std::move(named)), marks_(named_.size()) {}

  absl::StatusOr<std::vector<int>> Order() {
    for (size_t node = 0; node < named_.size(); ++node) {
      RETURN_IF_ERROR(Visit(static_cast<int>(node)));
    }
    return std::move(order_);
  }

 private:
  enum class Mark { kNew, kOpen, kDone };
  struct Step {
    int node;
    size_t next = 0;
  };

  absl::Status Visit(int start) {
    if (marks_[start] == Mark::kDone) return absl::OkStatus();
    Open(start);
    while (!path_.empty()) {
      Step& step = path_.back();
      if (step.next == named_[step.node].size()) {
        Close();
        continue;
      }
      const int named = named_[step.node][step.next++];
      if (marks_[named] == Mark::kOpen) return Cycle(named);
      if (marks_[named] == Mark::kNew) Open(named);
    }
    return absl::OkStatus();
  }

  void Open(int node) {
    marks_[node] = Mark::kOpen;
    path_.push_back({node});
  }
  void Close() {
    const int node = path_.back().node;
    marks_[node] = Mark::kDone;
    order_.push_back(node);
    path_.pop_back();
  }

  // The path leads back to `node`.
  absl::Status Cycle(int node) const {
    const auto first =
        std::find_if(path_.begin(), path_.end(),
                     [&](const Step& step) { return step.node == node; });
    std::vector<std::string> names;
    for (auto step = first; step != path_.end(); ++step) {
      names.push_back(Quoted(program_.nodes(step->node).name()));
    }
    // A message stays small.
    if (names.size() > kMostNames) {
      names.resize(kMostNames);
      names.push_back("...");
    }
    names.push_back(Quoted(program_.nodes(node).name()));
    return InvalidField({.field = FieldOfNode(node),
                         .problem = absl::StrCat("needs itself: ",
                                                 absl::StrJoin(names, " -> ")),
                         .valid = "nodes that do not depend on themselves"});
  }

  const v1::Program& program_;
  const std::vector<std::vector<int>> named_;
  std::vector<Mark> marks_;
  std::vector<Step> path_;
  std::vector<int> order_;
};

}  // namespace

absl::StatusOr<std::vector<int>> OrderProgram(const v1::Program& program,
                                              const Limits& limits) {
  if (program.nodes_size() > limits.max_program_nodes) {
    return InvalidField(
        {.field = "program.nodes",
         .problem = absl::StrCat(program.nodes_size(), " nodes"),
         .valid = absl::StrCat("at most ", limits.max_program_nodes)},
        absl::StatusCode::kResourceExhausted);
  }
  ASSIGN_OR_RETURN(const NodeIndex index, IndexNames(program, limits));
  std::vector<std::vector<int>> named;
  for (int i = 0; i < program.nodes_size(); ++i) {
    ASSIGN_OR_RETURN(named.emplace_back(),
                     NodesNamedBy(program.nodes(i), index, FieldOfNode(i)));
  }
  return OrderWalk(program, std::move(named)).Order();
}

}  // namespace phitap
