// The captures of a request, resolved to values of runs and tensors.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_PLAN_CAPTURES_H_
#define PHITAP_SERVER_PLAN_PLAN_CAPTURES_H_

#include "absl/status/status.h"
#include "phitap/v1/trace.pb.h"
#include "server/plan/plan_context.h"
#include "server/plan/trace_plan.h"

namespace phitap {

// Fills in captures, tensors and size_bytes of a plan whose runs are there:
// capture by capture, within it run by run, within it in forward order.
// INVALID_ARGUMENT names the field; RESOURCE_EXHAUSTED where bytes are over a
// limit.
absl::Status PlanCaptures(const v1::TraceRequest& request,
                          const PlanContext& context, TracePlan& plan);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_PLAN_CAPTURES_H_
