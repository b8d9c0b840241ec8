// The runs of a request: labels, tokens, hidden positions, position ids,
// generation.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_RUNS_PLAN_RUNS_H_
#define PHITAP_SERVER_PLAN_RUNS_PLAN_RUNS_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "phitap/v1/trace.pb.h"
#include "server/plan/plan_context.h"
#include "server/plan/trace_plan.h"

namespace phitap {

// Runs by label.
using RunIndex = absl::flat_hash_map<std::string, int>;

// INVALID_ARGUMENT where a label is repeated or too long.
absl::StatusOr<RunIndex> IndexRuns(const v1::TraceRequest& request,
                                   const Limits& limits);

// The run that `label` names. INVALID_ARGUMENT against `field`, with the
// nearest labels.
absl::StatusOr<int> FindRun(const RunIndex& runs, absl::string_view label,
                            absl::string_view field);

// INVALID_ARGUMENT against `field` for a label that is too long.
absl::Status CheckLabel(const std::string& label, const Limits& limits,
                        absl::string_view field);

// Every run of the caller's, its reach not yet filled in.
absl::StatusOr<std::vector<PlannedRun>> PlanRuns(
    const v1::TraceRequest& request, const PlanContext& context);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_RUNS_PLAN_RUNS_H_
