// The caller's program as nodes of the plan; with what edits and metrics are
// lowered to as well.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_PROGRAM_PLAN_PROGRAM_H_
#define PHITAP_SERVER_PLAN_PROGRAM_PLAN_PROGRAM_H_

#include "absl/status/statusor.h"
#include "server/plan/program/dictionary_nodes.h"
#include "server/plan/program/inline_tensor.h"
#include "server/plan/program/metric_nodes.h"
#include "server/plan/program/named_sources.h"
#include "server/plan/program/node_index.h"
#include "server/plan/program/plan_parts.h"
#include "server/plan/program/run_value.h"

namespace phitap {

// Adds the request's constants and its program. INVALID_ARGUMENT names the node
// that cannot be made, or those that need each other.
absl::StatusOr<NodeIndex> PlanProgram(const PlanParts& parts);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_PROGRAM_PLAN_PROGRAM_H_
