// Runs of one wave that read each other's values at one hook point, after the
// edits there.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_ORDER_POINT_ORDER_H_
#define PHITAP_SERVER_PLAN_ORDER_POINT_ORDER_H_

#include <vector>

#include "absl/status/status.h"
#include "server/plan/order/node_times.h"
#include "server/plan/order/wait_graph.h"
#include "server/plan/trace_plan.h"

namespace phitap {

// Whether the runs of a component can be taken one after another at every hook
// point where they need each other's edited value; before its stage is settled.
// INVALID_ARGUMENT where they go round in a circle.
absl::Status CheckPointOrder(const TracePlan& plan, const WaitGraph& graph,
                             const ModelSpec& spec, const NodeTimes& times,
                             const std::vector<int>& component);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_ORDER_POINT_ORDER_H_
