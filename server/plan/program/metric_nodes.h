// Metrics of runs as nodes.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_PROGRAM_METRIC_NODES_H_
#define PHITAP_SERVER_PLAN_PROGRAM_METRIC_NODES_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "phitap/v1/program.pb.h"
#include "server/plan/program/node_index.h"
#include "server/plan/program/plan_parts.h"

namespace phitap {

// A metric as a node of one element, shape []. It is taken from `run`; −1 takes
// the run that the message names. KL takes its position in each of the two runs
// by the tokens of that run. INVALID_ARGUMENT names the field.
absl::StatusOr<int> AddMetric(const PlanParts& parts, const NodeIndex& nodes,
                              const v1::Metric& metric, int run,
                              absl::string_view field);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_PROGRAM_METRIC_NODES_H_
