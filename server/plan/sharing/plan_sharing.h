// What runs may have in common with others.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_SHARING_PLAN_SHARING_H_
#define PHITAP_SERVER_PLAN_SHARING_PLAN_SHARING_H_

#include "server/plan/plan_context.h"
#include "server/plan/trace_plan.h"

namespace phitap {

// Fills in PlannedRun::sharing of every run of a plan whose reads are in their
// places and whose reaches are known (see PlaceReads, PlanReach).
void PlanSharing(const PlanContext& context, TracePlan& plan);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_SHARING_PLAN_SHARING_H_
