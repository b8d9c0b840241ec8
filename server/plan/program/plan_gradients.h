// The gradients that a request asks for, as passes, nodes and tensors.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_PROGRAM_PLAN_GRADIENTS_H_
#define PHITAP_SERVER_PLAN_PROGRAM_PLAN_GRADIENTS_H_

#include <vector>

#include "absl/status/status.h"
#include "server/plan/program/gradient_nodes.h"
#include "server/plan/program/plan_program.h"
#include "server/plan/sweeps/expand_sweeps.h"

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

#endif  // PHITAP_SERVER_PLAN_PROGRAM_PLAN_GRADIENTS_H_
