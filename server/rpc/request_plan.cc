#include "server/rpc/request_plan.h"

#include "server/base/status_macros.h"
#include "server/plan/describe.h"
#include "server/plan/plan_trace.h"
#include "server/plan/refuse_unknown.h"
#include "server/rpc/prompt_encoder.h"
#include "server/rpc/token_texts.h"

namespace phitap {

absl::StatusOr<RequestPlan> PlanRequest(const v1::TraceRequest& request,
                                        const ServedModels& models,
                                        const Limits& limits) {
  ASSIGN_OR_RETURN(const ServedModel* model, models.Find(request.model()));
  ASSIGN_OR_RETURN(std::shared_ptr<const TracePlan> plan,
                   PlanTrace(request, {.model = model->name,
                                       .spec = model->spec,
                                       .compute_dtype = model->compute_dtype,
                                       .limits = limits,
                                       .encode = EncoderOf(*model)}));
  return RequestPlan{.model = model, .plan = std::move(plan)};
}

absl::StatusOr<v1::PlanTraceResponse> PlanOnly(
    const v1::PlanTraceRequest& request, const ServedModels& models,
    const Limits& limits) {
  RETURN_IF_ERROR(RefuseUnknown(request, ""));
  ASSIGN_OR_RETURN(const RequestPlan planned,
                   PlanRequest(request.trace(), models, limits));
  v1::PlanTraceResponse response = DescribePlan(*planned.plan);
  for (v1::RunTokens& tokens : *response.mutable_runs()) {
    AddTexts(*planned.model, tokens);
  }
  return response;
}

}  // namespace phitap
