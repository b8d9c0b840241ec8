// From a request to a plan: everything is checked here, before the forward.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_PLAN_TRACE_H_
#define PHITAP_SERVER_PLAN_PLAN_TRACE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "phitap/v1/trace.pb.h"
#include "server/plan/plan_context.h"
#include "server/plan/trace_plan.h"

namespace phitap {

// Checks and resolves a request for the context's model (`model` of the request
// is not looked at). Pure but for the encoder; thread-safe if that is.
//
// INVALID_ARGUMENT names the offending field, its value and what would be
// valid; RESOURCE_EXHAUSTED says how many bytes were asked for and how many are
// allowed; FAILED_PRECONDITION for text without a tokenizer; the encoder's own.
absl::StatusOr<std::shared_ptr<const TracePlan>> PlanTrace(
    const v1::TraceRequest& request, const PlanContext& context);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_PLAN_TRACE_H_
