// The captures of a request, resolved to values of runs and tensors.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_CAPTURES_PLAN_CAPTURES_H_
#define PHITAP_SERVER_PLAN_CAPTURES_PLAN_CAPTURES_H_

#include "absl/status/status.h"
#include "server/plan/program/plan_parts.h"
#include "server/plan/program/plan_program.h"

namespace phitap {

// Adds captures, outputs (for nodes) and their tensors to a plan whose runs and
// program are there: capture by capture, within it run by run, within it in
// forward order, within it step by step. INVALID_ARGUMENT names the field;
// RESOURCE_EXHAUSTED where a value's bytes are over the limit.
absl::Status PlanCaptures(const PlanParts& parts, const NodeIndex& nodes);

// RESOURCE_EXHAUSTED where the answer is larger than the server allows; once
// all tensors are there.
absl::Status CheckAnswer(const PlanParts& parts);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_CAPTURES_PLAN_CAPTURES_H_
