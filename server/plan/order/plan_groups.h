// In which order runs and gradient passes are computed, and which of them
// together.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_ORDER_PLAN_GROUPS_H_
#define PHITAP_SERVER_PLAN_ORDER_PLAN_GROUPS_H_

#include "absl/status/status.h"
#include "server/plan/plan_context.h"
#include "server/plan/trace_plan.h"

namespace phitap {

// Fills in TracePlan::groups of a plan whose reads are in their places (see
// PlaceReads). A write needs the values that its nodes read: one read in
// another run earlier in forward order, or after the edits at the same place,
// can come from the same wave (not where runs share none), one read later (or
// scores and probabilities of the same layer) from an earlier group.
// INVALID_ARGUMENT, naming the runs and fields, where runs would have to wait
// for each other, or a write for its own run; for latches outside edits of
// their own run.
absl::Status PlanGroups(const PlanContext& context, TracePlan& plan);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_ORDER_PLAN_GROUPS_H_
