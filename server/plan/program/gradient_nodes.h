// Gradients as nodes, and the passes that fill them in.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_PROGRAM_GRADIENT_NODES_H_
#define PHITAP_SERVER_PLAN_PROGRAM_GRADIENT_NODES_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/plan/program.h"
#include "server/plan/program/plan_parts.h"

namespace phitap {

// The node of a gradient of `metric`, a node of one element, in the
// GradientPass of the pair of run and metric, which is added where it is
// missing. With respect to scores or probabilities the plan's attention becomes
// kEager. INVALID_ARGUMENT against `field` where the metric has several
// elements or nothing that it reads of the run comes after the hook point;
// where the request asks for SDPA and needs EAGER.
absl::StatusOr<int> AddGradientOf(const PlanParts& parts, int metric,
                                  RunRead with_respect_to,
                                  absl::string_view field);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_PROGRAM_GRADIENT_NODES_H_
