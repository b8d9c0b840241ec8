// The gradients that a request asks for, as passes, nodes and tensors.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_PLAN_GRADIENTS_H_
#define PHITAP_SERVER_PLAN_PLAN_GRADIENTS_H_

#include <vector>

#include "absl/status/status.h"
#include "server/plan/expand_sweeps.h"
#include "server/plan/gradient_nodes.h"
#include "server/plan/plan_program.h"

namespace phitap {

// Both come after PlanCaptures, whose labels theirs must differ from, and hold
// the limits on tensors and bytes of the answer. INVALID_ARGUMENT names the
// field.

// Adds the request's `gradients`: nodes, tensors (of no run: they come with the
// gradient's pass), outputs.
absl::Status PlanGradients(const PlanParts& parts, const NodeIndex& nodes);

// Adds, for every sweep, its metrics' tensors and an output for each cell; the
// cells' runs are in the plan, in order, with PlannedRun::sweep set.
absl::Status PlanSweepMetrics(const PlanParts& parts, const NodeIndex& nodes,
                              const std::vector<SweepGrid>& grids);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_PLAN_GRADIENTS_H_
