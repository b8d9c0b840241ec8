// What runs and gradient passes need of each other, by way of nodes.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_ORDER_WAIT_GRAPH_H_
#define PHITAP_SERVER_PLAN_ORDER_WAIT_GRAPH_H_

#include <vector>

#include "absl/types/span.h"
#include "server/plan/trace_plan.h"

namespace phitap {

// Vertices are the runs, then the gradient passes, then the nodes of a plan. A
// run needs the nodes of its writes, a node its inputs and what it is read
// from, a pass its run and its metric. Takes time and memory linear in the
// plan, however deep it is.
class WaitGraph {
 public:
  // `plan` outlives it.
  explicit WaitGraph(const TracePlan& plan);

  int run_count() const { return run_count_; }
  int vertex_count() const { return static_cast<int>(starts_.size()) - 1; }
  int VertexOfPass(int pass) const { return run_count_ + pass; }
  int VertexOfNode(int node) const { return first_node_ + node; }
  bool IsRun(int vertex) const { return vertex < run_count_; }
  bool IsPass(int vertex) const {
    return vertex >= run_count_ && vertex < first_node_;
  }
  bool IsNode(int vertex) const { return vertex >= first_node_; }
  int PassOf(int vertex) const { return vertex - run_count_; }
  int NodeOf(int vertex) const { return vertex - first_node_; }

  absl::Span<const int> Needs(int vertex) const;
  // Writes of a run, as indices in the plan.
  const std::vector<int>& WritesOf(int run) const { return writes_[run]; }
  // The pass that fills in a gradient's node.
  int PassOfGradient(int node) const { return pass_of_gradient_[node]; }

  // All that runs and passes need, in sets of vertices that need each other
  // (most are of one vertex), ascending within a set. A set comes after those
  // that it needs.
  std::vector<std::vector<int>> Components() const;

  // The shortest way from `from` to what it needs, and on to `to`; both
  // included. Empty where there is none.
  std::vector<int> Path(int from, int to) const;

 private:
  void AddNeeds();

  const TracePlan& plan_;
  const int run_count_;
  const int first_node_;
  std::vector<std::vector<int>> writes_;
  std::vector<int> pass_of_gradient_;
  // Needs of vertex v are needs_[starts_[v]] to before needs_[starts_[v + 1]].
  std::vector<size_t> starts_;
  std::vector<int> needs_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_ORDER_WAIT_GRAPH_H_
