#include "server/plan/order/node_times.h"

#include <variant>

namespace phitap {

NodeTimes::NodeTimes(const TracePlan& plan, const WaitGraph& graph,
                     const ModelSpec& spec)
    : plan_(plan),
      graph_(graph),
      spec_(spec),
      earlier_(plan.nodes.size()),
      own_(plan.nodes.size(), kBeforeAll),
      stages_(graph.vertex_count(), -1) {}

void NodeTimes::Look(const std::vector<int>& component) {
  for (int vertex : component) {
    if (!graph_.IsNode(vertex)) continue;
    const int index = graph_.NodeOf(vertex);
    const ProgramNode& node = plan_.nodes[index];
    StageMoment& earlier = earlier_[index];
    Moment& own = own_[index];
    // Inputs of earlier components are settled: nothing of theirs is "own".
    for (int input : node.inputs) {
      earlier = std::max(earlier, earlier_[input]);
      own = std::max(own, own_[input]);
    }
    if (const auto* read = std::get_if<RunRead>(&node.operation)) {
      const Moment ready = ReadyMoment(*read, spec_);
      const int stage = stages_[read->run];
      if (stage < 0) {
        own = ready;
      } else {
        earlier = {.stage = stage, .moment = ready};
      }
    }
    const int pass = graph_.PassOfGradient(index);
    if (pass < 0) continue;
    earlier = {.stage = stages_[graph_.VertexOfPass(pass)],
               .moment = kAfterAll};
  }
}

void NodeTimes::Settle(const std::vector<int>& component, int stage) {
  for (int vertex : component) {
    if (!graph_.IsNode(vertex)) {
      stages_[vertex] = stage;
      continue;
    }
    const int node = graph_.NodeOf(vertex);
    if (own_[node] == kBeforeAll) continue;
    earlier_[node] =
        std::max(earlier_[node], {.stage = stage, .moment = own_[node]});
    own_[node] = kBeforeAll;
  }
}

}  // namespace phitap
