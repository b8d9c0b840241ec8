// A capture of a node of the program.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_CAPTURES_NODE_CAPTURE_H_
#define PHITAP_SERVER_PLAN_CAPTURES_NODE_CAPTURE_H_

#include "absl/status/status.h"
#include "server/plan/program/plan_parts.h"
#include "server/plan/program/plan_program.h"

namespace phitap {

// Adds the output and the tensor of capture number `index`, which names a node;
// the tensor's label is the node's name unless one is given. INVALID_ARGUMENT
// against a field of the capture that is unknown or only for hook points.
absl::Status AddNodeCapture(const PlanParts& parts, const NodeIndex& nodes,
                            int index);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_CAPTURES_NODE_CAPTURE_H_
