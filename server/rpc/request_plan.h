// From a request to its model and plan.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_RPC_REQUEST_PLAN_H_
#define PHITAP_SERVER_RPC_REQUEST_PLAN_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "phitap/v1/activation_service.pb.h"
#include "phitap/v1/trace.pb.h"
#include "server/identity/identity.h"
#include "server/models/served_models.h"
#include "server/plan/limits.h"
#include "server/plan/trace_plan.h"
#include "server/tensors/named_tensors.h"

namespace phitap {

// What planning looks things up in. All outlive the calls.
struct PlanningParts {
  const ServedModels& models;
  // The caller's.
  OwnedTensors tensors;
  const Identity& identity;
  const Limits& limits;
};

struct RequestPlan {
  std::shared_ptr<const ServedModel> model;
  std::shared_ptr<const TracePlan> plan;
};

// Tokens of all prompts, and those that runs may generate.
int64_t CountTokens(const TracePlan& plan);

// NOT_FOUND for an unknown model, INVALID_ARGUMENT for fields and values that
// this server does not know, RESOURCE_EXHAUSTED for captures that do not fit
// where they are to be kept, PERMISSION_DENIED for such without the role
// `tensors`, and the errors of PlanTrace.
absl::StatusOr<RequestPlan> PlanRequest(const v1::TraceRequest& request,
                                        const PlanningParts& parts);

// The dry run.
absl::StatusOr<v1::PlanTraceResponse> PlanOnly(
    const v1::PlanTraceRequest& request, const PlanningParts& parts);

}  // namespace phitap

#endif  // PHITAP_SERVER_RPC_REQUEST_PLAN_H_
