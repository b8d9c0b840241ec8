// The gradients that a request asks for, as passes, nodes and tensors.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_PLAN_GRADIENTS_H_
#define PHITAP_SERVER_PLAN_PLAN_GRADIENTS_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/plan/expand_sweeps.h"
#include "server/plan/plan_program.h"

namespace phitap {

// The node of a gradient of `metric`, a node of one element, in the
// GradientPass of the pair of run and metric, which is added where it is
// missing.
absl::StatusOr<int> AddGradientOf(const PlanParts& parts, int metric,
                                  RunRead with_respect_to,
                                  absl::string_view field);

// Adds the request's `gradients`: nodes, tensors, outputs.
absl::Status PlanGradients(const PlanParts& parts, const NodeIndex& nodes);

// Adds, for every sweep, its metrics' tensors and an output for each cell; the
// cells' runs are in the plan, in order, with PlannedRun::sweep set.
absl::Status PlanSweepMetrics(const PlanParts& parts, const NodeIndex& nodes,
                              const std::vector<SweepGrid>& grids);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_PLAN_GRADIENTS_H_
