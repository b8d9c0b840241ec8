// Nodes that a node is computed from.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_PROGRAM_NODE_WALK_H_
#define PHITAP_SERVER_PLAN_PROGRAM_NODE_WALK_H_

#include <vector>

#include "server/plan/trace_plan.h"

namespace phitap {

// `node` and all that it is computed from by way of inputs, ascending: each
// after its inputs.
std::vector<int> NodesBelow(const TracePlan& plan, int node);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_PROGRAM_NODE_WALK_H_
