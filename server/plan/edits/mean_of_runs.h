// The mean of a hook point's value over runs.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_EDITS_MEAN_OF_RUNS_H_
#define PHITAP_SERVER_PLAN_EDITS_MEAN_OF_RUNS_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "phitap/v1/intervention.pb.h"
#include "server/plan/program/plan_parts.h"
#include "server/plan/program/run_value.h"

namespace phitap {

// (Σ_r x_r) / R over the R runs, laid out as the part that is read of each; or
// with over_positions (Σ_r Σ_p x_r[p]) / (Σ_r P_r) over all selected positions
// of all runs, each counting once, the position dimension kept with size 1.
// INVALID_ARGUMENT against a field under `field` for no or repeated runs,
// parts of different shapes, values without positions.
absl::StatusOr<int> AddMeanOfRuns(const PlanParts& parts,
                                  const v1::MeanOfRuns& mean,
                                  const RunValueDefaults& defaults,
                                  absl::string_view field);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_EDITS_MEAN_OF_RUNS_H_
