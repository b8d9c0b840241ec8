// The interventions of every run, lowered to nodes and writes.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_PLAN_INTERVENTIONS_H_
#define PHITAP_SERVER_PLAN_PLAN_INTERVENTIONS_H_

#include "absl/status/status.h"
#include "server/plan/plan_program.h"

namespace phitap {

// Fills in TracePlan::writes, run by run in the order of the request.
// INVALID_ARGUMENT names the field of the intervention that cannot be made.
absl::Status PlanInterventions(const PlanParts& parts, const NodeIndex& nodes);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_PLAN_INTERVENTIONS_H_
