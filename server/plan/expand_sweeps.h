// Sweeps, written out as the runs that they stand for.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_EXPAND_SWEEPS_H_
#define PHITAP_SERVER_PLAN_EXPAND_SWEEPS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "phitap/v1/trace.pb.h"
#include "server/plan/plan_context.h"

namespace phitap {

// One sweep's grid: the first axis is the slowest.
struct SweepGrid {
  // In the expanded request; the cells are consecutive.
  int first_run = 0;
  // [layer, position, head, scale], in the order of the axes.
  std::vector<std::string> dimension_names;
  std::vector<int64_t> shape;
};

struct ExpandedRequest {
  // Every cell is a run: same_as the sweep's run, with its interventions and
  // the cell's own after them.
  v1::TraceRequest request;
  // One for each of the original's sweeps.
  std::vector<SweepGrid> grids;
};

// `token_counts` are the tokens of the caller's own runs, in order.
// INVALID_ARGUMENT against a field under `sweeps[…]`; RESOURCE_EXHAUSTED past
// the limit on cells. A request without sweeps comes back as it is.
absl::StatusOr<ExpandedRequest> ExpandSweeps(
    const v1::TraceRequest& request, const PlanContext& context,
    const std::vector<int64_t>& token_counts);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_EXPAND_SWEEPS_H_
