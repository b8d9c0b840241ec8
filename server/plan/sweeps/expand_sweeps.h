// Sweeps, written out as the runs that they stand for.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_SWEEPS_EXPAND_SWEEPS_H_
#define PHITAP_SERVER_PLAN_SWEEPS_EXPAND_SWEEPS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "phitap/v1/trace.pb.h"
#include "server/plan/plan_context.h"
#include "server/plan/runs/plan_runs.h"
#include "server/plan/trace_plan.h"

namespace phitap {

// One sweep's grid: the first axis is the slowest.
struct SweepGrid {
  // In TracePlan::runs; the cells are consecutive.
  int first_run = 0;
  // [layer, position, head, scale], in the order of the axes.
  std::vector<std::string> dimension_names;
  std::vector<int64_t> shape;
};

// What one cell makes of its sweep's interventions; an axis that the sweep
// lacks is unset. The cell's run repeats `base_run` before them.
struct SweepCell {
  int sweep = 0;
  int base_run = 0;
  // The layers that it edits, ascending.
  std::optional<std::vector<int>> layers;
  // The token position, or at scores and probabilities the query.
  std::optional<int64_t> position;
  std::optional<int64_t> head;
  std::optional<double> scale;
};

struct ExpandedSweeps {
  // One for each of the request's sweeps.
  std::vector<SweepGrid> grids;
  // Of all sweeps, in the order of their runs.
  std::vector<SweepCell> cells;
};

// The label of sweep number `index`, given or by default.
std::string SweepLabel(const v1::TraceRequest& request, int index);

// Appends a run for every cell to the plan, whose runs are the caller's own so
// far: the base run's tokens, without its generation. INVALID_ARGUMENT against
// a field under `sweeps[…]`; RESOURCE_EXHAUSTED past the limit on cells.
absl::StatusOr<ExpandedSweeps> ExpandSweeps(const v1::TraceRequest& request,
                                            const PlanContext& context,
                                            const RunIndex& runs,
                                            TracePlan& plan);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_SWEEPS_EXPAND_SWEEPS_H_
