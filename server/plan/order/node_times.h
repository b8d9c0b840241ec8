// When the values that writes need are there.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_ORDER_NODE_TIMES_H_
#define PHITAP_SERVER_PLAN_ORDER_NODE_TIMES_H_

#include <algorithm>
#include <tuple>
#include <vector>

#include "server/plan/order/forward_order.h"
#include "server/plan/order/wait_graph.h"
#include "server/plan/trace_plan.h"

namespace phitap {

// A moment of the forwards of one stage; runs of a later stage come after all
// of it. Stage −1 is before all forwards.
struct StageMoment {
  int stage = -1;
  Moment moment = kBeforeAll;

  friend bool operator<(const StageMoment& a, const StageMoment& b) {
    return std::tie(a.stage, a.moment) < std::tie(b.stage, b.moment);
  }
};

// From when on each node has its value: the latest of what is read below it.
// Components are gone through in their order, each first with Look, then, once
// its stage is known, with Settle.
class NodeTimes {
 public:
  // All outlive it.
  NodeTimes(const TracePlan& plan, const WaitGraph& graph,
            const ModelSpec& spec);

  // Works out the nodes of a component.
  void Look(const std::vector<int>& component);
  // The component's runs or passes are of this stage.
  void Settle(const std::vector<int>& component, int stage);

  // Of what is read of earlier components.
  StageMoment Earlier(int node) const { return earlier_[node]; }
  // Of what is read of the node's own component, whose stage is not known yet;
  // kBeforeAll where nothing is.
  Moment Own(int node) const { return own_[node]; }
  int StageOf(int vertex) const { return stages_[vertex]; }

 private:
  const TracePlan& plan_;
  const WaitGraph& graph_;
  const ModelSpec& spec_;
  std::vector<StageMoment> earlier_;
  std::vector<Moment> own_;
  // Of runs and passes; −1 as long as it is not known.
  std::vector<int> stages_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_ORDER_NODE_TIMES_H_
