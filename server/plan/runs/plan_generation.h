// How a run goes on after its prompt.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_RUNS_PLAN_GENERATION_H_
#define PHITAP_SERVER_PLAN_RUNS_PLAN_GENERATION_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "phitap/v1/trace.pb.h"
#include "server/plan/plan_context.h"
#include "server/plan/trace_plan.h"

namespace phitap {

// The generation of `run`, whose prompt is planned. INVALID_ARGUMENT against a
// field under `field`, the generation's path: among others where the model has
// no positions for so many tokens, saying how many it has.
absl::StatusOr<PlannedGeneration> PlanGeneration(
    const v1::Generation& generation, const PlannedRun& run,
    const PlanContext& context, absl::string_view field);

// The passes that the run goes through at most: its prompt's and one for each
// generated token but the last, which is never read.
int PassCount(const PlannedRun& run);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_RUNS_PLAN_GENERATION_H_
