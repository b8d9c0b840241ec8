// The interventions of every run, lowered to nodes and writes.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_EDITS_PLAN_INTERVENTIONS_H_
#define PHITAP_SERVER_PLAN_EDITS_PLAN_INTERVENTIONS_H_

#include <vector>

#include "absl/status/status.h"
#include "server/plan/program/plan_parts.h"
#include "server/plan/program/plan_program.h"
#include "server/plan/sweeps/expand_sweeps.h"

namespace phitap {

// Fills in TracePlan::writes, run by run in the order of the request, then cell
// by cell: the base run's interventions, as far as they edit its prompt, and
// the sweep's own. INVALID_ARGUMENT names the field of the intervention that
// cannot be made, `runs[…]` or `sweeps[…]`; RESOURCE_EXHAUSTED past a limit.
absl::Status PlanInterventions(const PlanParts& parts, const NodeIndex& nodes,
                               const std::vector<SweepCell>& cells);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_EDITS_PLAN_INTERVENTIONS_H_
