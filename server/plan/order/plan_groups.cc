#include "server/plan/order/plan_groups.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "server/base/status_macros.h"
#include "server/plan/order/forward_order.h"
#include "server/plan/order/node_times.h"
#include "server/plan/order/point_order.h"
#include "server/plan/order/wait_error.h"
#include "server/plan/order/wait_graph.h"
#include "server/plan/program/latch_nodes.h"

namespace phitap {
namespace {

// Sets that are merged step by step.
class MergedSets {
 public:
  explicit MergedSets(size_t count) : parents_(count) {
    std::iota(parents_.begin(), parents_.end(), 0);
  }
  int Find(int member) {
    while (parents_[member] != member) {
      parents_[member] = parents_[parents_[member]];
      member = parents_[member];
    }
    return member;
  }
  void Merge(int a, int b) { parents_[Find(a)] = Find(b); }

 private:
  std::vector<int> parents_;
};

// Gives every component of runs a stage and joins those that one wave can
// compute. A stage holds what needs only earlier stages, or of its own stage
// what comes earlier in the forward.
class GroupPlanner {
 public:
  GroupPlanner(const PlanContext& context, TracePlan& plan)
      : context_(context),
        plan_(plan),
        graph_(plan),
        times_(plan, graph_, context.spec),
        components_(graph_.Components()),
        groups_(components_.size()),
        component_of_(graph_.vertex_count(), -1),
        token_counts_(components_.size()),
        needs_(components_.size()),
        seen_by_(graph_.vertex_count(), -1),
        runs_share_waves_(plan.numerics == Numerics::kCausal &&
                          context.wave_sharing == WaveSharing::kTogether) {}

  absl::Status Plan() {
    for (size_t i = 0; i < components_.size(); ++i) {
      for (int vertex : components_[i]) {
        component_of_[vertex] = static_cast<int>(i);
      }
      RETURN_IF_ERROR(PlanComponent(static_cast<int>(i)));
    }
    AddGroups();
    return absl::OkStatus();
  }

 private:
  // Runs come first in a component, then passes, then nodes.
  absl::Status PlanComponent(int component) {
    const std::vector<int>& vertices = components_[component];
    times_.Look(vertices);
    if (graph_.IsNode(vertices.front())) return absl::OkStatus();
    int stage = 0;
    if (graph_.IsPass(vertices.front()) && vertices.size() == 1) {
      stage = StageOfPass(graph_.PassOf(vertices.front()));
    } else {
      RETURN_IF_ERROR(CheckTogether(vertices));
      ASSIGN_OR_RETURN(stage, StageOfRuns(vertices));
    }
    CollectNeeds(component);
    if (graph_.IsRun(vertices.front())) stage = Join(component, stage);
    times_.Settle(vertices, stage);
    return absl::OkStatus();
  }

  int StageOfPass(int index) const {
    const GradientPass& pass = plan_.gradient_passes[index];
    return 1 + std::max(times_.StageOf(pass.run),
                        times_.Earlier(pass.metric).stage);
  }

  // Only runs can need each other, and only where they share a wave.
  absl::Status CheckTogether(const std::vector<int>& component) const {
    int runs = 0;
    bool has_pass = false;
    for (int vertex : component) {
      runs += graph_.IsRun(vertex) ? 1 : 0;
      has_pass |= graph_.IsPass(vertex);
    }
    if (!has_pass && (runs == 1 || runs_share_waves_)) return absl::OkStatus();
    return WaitForEachOther(plan_, graph_, component);
  }

  absl::StatusOr<int> StageOfRuns(const std::vector<int>& component) const {
    int stage = 0;
    bool at_one_point = false;
    for (int vertex : component) {
      if (!graph_.IsRun(vertex)) break;
      for (int index : graph_.WritesOf(vertex)) {
        const PlannedWrite& write = plan_.writes[index];
        const Moment need = NeedMoment(plan_, write, context_.spec);
        for (int node : {write.value, write.condition}) {
          if (node < 0) continue;
          stage = std::max(stage, StageFor(node, need));
          at_one_point |= times_.Own(node) == need;
          if (times_.Own(node) <= need) continue;
          return ComesTooLate(
              plan_, graph_, context_.spec,
              {.write = write, .need = need, .component = component});
        }
      }
    }
    if (at_one_point) {
      RETURN_IF_ERROR(
          CheckPointOrder(plan_, graph_, context_.spec, times_, component));
    }
    return stage;
  }

  // The earliest for a write that needs the node at that moment.
  int StageFor(int node, Moment need) const {
    const StageMoment ready = times_.Earlier(node);
    if (ready.stage < 0) return 0;
    const bool is_there = runs_share_waves_ && ready.moment <= need;
    return ready.stage + (is_there ? 0 : 1);
  }

  // The components of runs and passes that one needs, each once.
  void CollectNeeds(int component) {
    std::vector<int> queue = components_[component];
    for (int vertex : queue) seen_by_[vertex] = component;
    for (size_t i = 0; i < queue.size(); ++i) {
      for (int need : graph_.Needs(queue[i])) {
        if (seen_by_[need] == component) continue;
        seen_by_[need] = component;
        if (graph_.IsNode(need)) {
          queue.push_back(need);
        } else {
          needs_[component].push_back(component_of_[need]);
        }
      }
    }
    std::vector<int>& needs = needs_[component];
    std::sort(needs.begin(), needs.end());
    needs.erase(std::unique(needs.begin(), needs.end()), needs.end());
  }

  int StageOfComponent(int component) const {
    return times_.StageOf(components_[component].front());
  }

  // Joins a component of runs to what it needs of its own stage, unless the
  // wave would be too large: then it waits. Returns its stage.
  int Join(int component, int stage) {
    int64_t token_count = 0;
    for (int vertex : components_[component]) {
      if (!graph_.IsRun(vertex)) break;
      token_count += plan_.runs[vertex].own_token_count;
    }
    token_counts_[component] = token_count;
    std::vector<int> linked;
    for (int need : needs_[component]) {
      if (StageOfComponent(need) == stage) linked.push_back(groups_.Find(need));
    }
    std::sort(linked.begin(), linked.end());
    linked.erase(std::unique(linked.begin(), linked.end()), linked.end());
    for (int group : linked) token_count += token_counts_[group];
    if (linked.empty()) return stage;
    if (token_count > context_.limits.max_linked_tokens) return stage + 1;
    for (int group : linked) groups_.Merge(component, group);
    token_counts_[groups_.Find(component)] = token_count;
    return stage;
  }

  // One group for each set of joined components, in the order of their stages.
  void AddGroups() {
    std::vector<std::tuple<int, int, int>> order;  // stage, first vertex, set
    std::vector<int> first_of(components_.size(), graph_.vertex_count());
    for (int vertex = 0;
         !graph_.IsNode(vertex) && vertex < graph_.vertex_count(); ++vertex) {
      const int set = groups_.Find(component_of_[vertex]);
      if (first_of[set] < vertex) continue;
      first_of[set] = vertex;
      order.emplace_back(times_.StageOf(vertex), vertex, set);
    }
    std::sort(order.begin(), order.end());
    std::vector<int> group_of(components_.size(), -1);
    for (const auto& [stage, vertex, set] : order) {
      group_of[set] = static_cast<int>(plan_.groups.size());
      plan_.groups.emplace_back();
    }
    FillGroups(group_of);
  }

  void FillGroups(const std::vector<int>& group_of) {
    for (int vertex = 0;
         !graph_.IsNode(vertex) && vertex < graph_.vertex_count(); ++vertex) {
      const int component = component_of_[vertex];
      RunGroup& group = plan_.groups[group_of[groups_.Find(component)]];
      if (graph_.IsPass(vertex)) {
        group.gradient_pass = graph_.PassOf(vertex);
        group.runs = {plan_.gradient_passes[group.gradient_pass].run};
      } else {
        group.runs.push_back(vertex);
      }
      // Runs of one component have its needs in common.
      if (components_[component].front() != vertex) continue;
      for (int need : needs_[component]) {
        group.after.push_back(group_of[groups_.Find(need)]);
      }
    }
    for (size_t i = 0; i < plan_.groups.size(); ++i) {
      std::vector<int>& after = plan_.groups[i].after;
      std::sort(after.begin(), after.end());
      after.erase(std::unique(after.begin(), after.end()), after.end());
      // What is needed of a joined component is of the group itself.
      const auto own =
          std::lower_bound(after.begin(), after.end(), static_cast<int>(i));
      after.erase(own, after.end());
    }
  }

  const PlanContext& context_;
  TracePlan& plan_;
  const WaitGraph graph_;
  NodeTimes times_;
  const std::vector<std::vector<int>> components_;
  MergedSets groups_;
  // By vertex.
  std::vector<int> component_of_;
  // By component: of the runs of the set that it stands for; those that it
  // needs.
  std::vector<int64_t> token_counts_;
  std::vector<std::vector<int>> needs_;
  // By vertex: the component whose needs were last looked for there.
  std::vector<int> seen_by_;
  const bool runs_share_waves_;
};

}  // namespace

absl::Status PlanGroups(const PlanContext& context, TracePlan& plan) {
  RETURN_IF_ERROR(CheckLatches(plan));
  return GroupPlanner(context, plan).Plan();
}

}  // namespace phitap
