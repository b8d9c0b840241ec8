#include "server/plan/order/wait_graph.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/container/flat_hash_map.h"

namespace phitap {
namespace {

// Tarjan's algorithm, with a stack of its own in place of recursion.
class ComponentSearch {
 public:
  explicit ComponentSearch(const WaitGraph& graph)
      : graph_(graph),
        order_(graph.vertex_count(), kNew),
        low_(graph.vertex_count()) {}

  void From(int start) {
    if (order_[start] != kNew) return;
    Enter(start);
    while (!path_.empty()) {
      Step& step = path_.back();
      const absl::Span<const int> needs = graph_.Needs(step.vertex);
      if (step.next == needs.size()) {
        Leave();
        continue;
      }
      const int need = needs[step.next++];
      if (order_[need] == kNew) {
        Enter(need);
      } else if (order_[need] != kDone) {
        low_[step.vertex] = std::min(low_[step.vertex], order_[need]);
      }
    }
  }

  std::vector<std::vector<int>> Take() { return std::move(components_); }

 private:
  static constexpr int kNew = -1;
  static constexpr int kDone = -2;
  struct Step {
    int vertex;
    size_t next = 0;
  };

  void Enter(int vertex) {
    order_[vertex] = low_[vertex] = entered_++;
    open_.push_back(vertex);
    path_.push_back({vertex});
  }

  void Leave() {
    const int vertex = path_.back().vertex;
    path_.pop_back();
    if (!path_.empty()) {
      int& low = low_[path_.back().vertex];
      low = std::min(low, low_[vertex]);
    }
    if (low_[vertex] != order_[vertex]) return;
    std::vector<int>& component = components_.emplace_back();
    int member = -1;
    do {
      member = open_.back();
      open_.pop_back();
      order_[member] = kDone;
      component.push_back(member);
    } while (member != vertex);
    std::sort(component.begin(), component.end());
  }

  const WaitGraph& graph_;
  // When a vertex was entered, and the earliest that it leads back to.
  std::vector<int> order_;
  std::vector<int> low_;
  int entered_ = 0;
  std::vector<int> open_;
  std::vector<Step> path_;
  std::vector<std::vector<int>> components_;
};

}  // namespace

WaitGraph::WaitGraph(const TracePlan& plan)
    : plan_(plan),
      run_count_(static_cast<int>(plan.runs.size())),
      first_node_(run_count_ + static_cast<int>(plan.gradient_passes.size())),
      writes_(plan.runs.size()),
      pass_of_gradient_(plan.nodes.size(), -1) {
  for (size_t i = 0; i < plan.writes.size(); ++i) {
    writes_[plan.writes[i].run].push_back(static_cast<int>(i));
  }
  for (size_t i = 0; i < plan.gradient_passes.size(); ++i) {
    for (int node : plan.gradient_passes[i].gradients) {
      pass_of_gradient_[node] = static_cast<int>(i);
    }
  }
  AddNeeds();
}

void WaitGraph::AddNeeds() {
  const auto end_vertex = [&] { starts_.push_back(needs_.size()); };
  end_vertex();
  for (int run = 0; run < run_count_; ++run) {
    for (int write : writes_[run]) {
      needs_.push_back(VertexOfNode(plan_.writes[write].value));
      const int condition = plan_.writes[write].condition;
      if (condition >= 0) needs_.push_back(VertexOfNode(condition));
    }
    end_vertex();
  }
  for (const GradientPass& pass : plan_.gradient_passes) {
    needs_.push_back(pass.run);
    needs_.push_back(VertexOfNode(pass.metric));
    end_vertex();
  }
  for (size_t i = 0; i < plan_.nodes.size(); ++i) {
    const ProgramNode& node = plan_.nodes[i];
    for (int input : node.inputs) needs_.push_back(VertexOfNode(input));
    if (const auto* read = std::get_if<RunRead>(&node.operation)) {
      needs_.push_back(read->run);
    }
    if (pass_of_gradient_[i] >= 0) {
      needs_.push_back(VertexOfPass(pass_of_gradient_[i]));
    }
    end_vertex();
  }
}

absl::Span<const int> WaitGraph::Needs(int vertex) const {
  return absl::MakeConstSpan(needs_).subspan(
      starts_[vertex], starts_[vertex + 1] - starts_[vertex]);
}

std::vector<std::vector<int>> WaitGraph::Components() const {
  ComponentSearch search(*this);
  for (int vertex = 0; vertex < first_node_; ++vertex) search.From(vertex);
  return search.Take();
}

std::vector<int> WaitGraph::Path(int from, int to) const {
  // Where each vertex was reached from.
  absl::flat_hash_map<int, int> reached = {{from, -1}};
  std::vector<int> queue = {from};
  for (size_t i = 0; i < queue.size() && !reached.contains(to); ++i) {
    for (int need : Needs(queue[i])) {
      if (reached.emplace(need, queue[i]).second) queue.push_back(need);
    }
  }
  std::vector<int> path;
  if (!reached.contains(to)) return path;
  for (int vertex = to; vertex >= 0; vertex = reached[vertex]) {
    path.push_back(vertex);
  }
  std::reverse(path.begin(), path.end());
  return path;
}

}  // namespace phitap
