#include "server/plan/order/point_order.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/container/flat_hash_map.h"
#include "server/base/status_macros.h"
#include "server/plan/order/forward_order.h"
#include "server/plan/order/wait_error.h"

namespace phitap {
namespace {

// Walks, in depth and without recursion, from the edits of a run at one moment
// to the edits at the same moment that they need. A place is a run (its edits
// at the moment) or a node whose latest value of the component is of the
// moment; a node is of one moment only, so all walks together are linear.
class PointWalk {
 public:
  PointWalk(const TracePlan& plan, const WaitGraph& graph,
            const ModelSpec& spec, const NodeTimes& times)
      : plan_(plan), graph_(graph), spec_(spec), times_(times) {}

  // The writes of a run that need something of their own moment.
  void AddRun(int run) {
    for (int index : graph_.WritesOf(run)) {
      const PlannedWrite& write = plan_.writes[index];
      const Moment need = NeedMoment(plan_, write, spec_);
      for (int node : {write.value, write.condition}) {
        if (node >= 0 && times_.Own(node) == need) {
          needs_[{run, need}].push_back({index, node});
        }
      }
    }
  }

  absl::Status Check() {
    for (const auto& [place, needs] : needs_) {
      RETURN_IF_ERROR(Visit({.vertex = place.first, .moment = place.second}));
    }
    return absl::OkStatus();
  }

 private:
  enum class Mark { kNew, kOpen, kDone };
  struct Place {
    int vertex;
    Moment moment;
  };
  struct Need {
    int write;
    int node;
  };
  struct Step {
    Place place;
    size_t next = 0;
    // Of a run: the write that the walk goes on from.
    int write = -1;
  };

  Mark& MarkOf(const Place& place) {
    return marks_[{place.vertex, place.moment}];
  }

  void Open(const Place& place) {
    MarkOf(place) = Mark::kOpen;
    path_.push_back({.place = place});
  }

  absl::Status Visit(const Place& start) {
    if (MarkOf(start) == Mark::kDone) return absl::OkStatus();
    Open(start);
    Place next = start;
    while (!path_.empty()) {
      if (!Next(path_.back(), next)) {
        MarkOf(path_.back().place) = Mark::kDone;
        path_.pop_back();
        continue;
      }
      if (MarkOf(next) == Mark::kOpen) return Circle(next);
      if (MarkOf(next) == Mark::kNew) Open(next);
    }
    return absl::OkStatus();
  }

  // The next place that a step needs; false where there is none left.
  bool Next(Step& step, Place& next) const {
    const Moment moment = step.place.moment;
    if (graph_.IsRun(step.place.vertex)) {
      const auto found = needs_.find({step.place.vertex, moment});
      if (found == needs_.end() || step.next == found->second.size()) {
        return false;
      }
      const Need& need = found->second[step.next++];
      step.write = need.write;
      next = {.vertex = graph_.VertexOfNode(need.node), .moment = moment};
      return true;
    }
    const int index = graph_.NodeOf(step.place.vertex);
    const auto* read = std::get_if<RunRead>(&plan_.nodes[index].operation);
    if (read != nullptr) {
      next = {.vertex = read->run, .moment = moment};
      return step.next++ == 0;
    }
    const std::vector<int>& inputs = plan_.nodes[index].inputs;
    while (step.next < inputs.size()) {
      const int input = inputs[step.next++];
      if (times_.Own(input) != moment) continue;
      next = {.vertex = graph_.VertexOfNode(input), .moment = moment};
      return true;
    }
    return false;
  }

  // The path leads back to `place`.
  absl::Status Circle(const Place& place) const {
    auto first = std::find_if(path_.begin(), path_.end(), [&](const Step& s) {
      return s.place.vertex == place.vertex;
    });
    std::vector<const PlannedWrite*> writes;
    for (; first != path_.end(); ++first) {
      if (first->write >= 0) writes.push_back(&plan_.writes[first->write]);
    }
    return WaitAtOnePoint(plan_, writes);
  }

  const TracePlan& plan_;
  const WaitGraph& graph_;
  const ModelSpec& spec_;
  const NodeTimes& times_;
  absl::flat_hash_map<std::pair<int, Moment>, std::vector<Need>> needs_;
  absl::flat_hash_map<std::pair<int, Moment>, Mark> marks_;
  std::vector<Step> path_;
};

}  // namespace

absl::Status CheckPointOrder(const TracePlan& plan, const WaitGraph& graph,
                             const ModelSpec& spec, const NodeTimes& times,
                             const std::vector<int>& component) {
  PointWalk walk(plan, graph, spec, times);
  for (int vertex : component) {
    if (graph.IsRun(vertex)) walk.AddRun(vertex);
  }
  return walk.Check();
}

}  // namespace phitap
