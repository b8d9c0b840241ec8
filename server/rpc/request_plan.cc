#include "server/rpc/request_plan.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/status_macros.h"
#include "server/plan/describe.h"
#include "server/plan/plan_trace.h"
#include "server/plan/refuse_unknown.h"
#include "server/rpc/prompt_encoder.h"
#include "server/rpc/token_texts.h"

namespace phitap {

namespace {

// Against the capture that names it.
absl::Status CheckKept(const v1::TraceRequest& request,
                       const PlannedTensor& tensor,
                       const PlanningParts& parts) {
  std::string field = "captures";
  for (int i = 0; i < request.captures_size(); ++i) {
    if (request.captures(i).tensor_name() != tensor.kept_as) continue;
    field = absl::StrCat("captures[", i, "].tensor_name");
  }
  RETURN_IF_ERROR(CheckRole(parts.identity, Role::kTensors, field));
  return parts.tensors.CheckPut(tensor.kept_as, tensor.size_bytes, field);
}

}  // namespace

int64_t CountTokens(const TracePlan& plan) {
  int64_t tokens = 0;
  for (const PlannedRun& run : plan.runs) {
    tokens += static_cast<int64_t>(run.ids.size());
    if (run.generation.has_value()) tokens += run.generation->max_tokens;
  }
  return tokens;
}

absl::StatusOr<RequestPlan> PlanRequest(const v1::TraceRequest& request,
                                        const PlanningParts& parts) {
  ASSIGN_OR_RETURN(std::shared_ptr<const ServedModel> model,
                   parts.models.Find(request.model()));
  ASSIGN_OR_RETURN(
      std::shared_ptr<const TracePlan> plan,
      PlanTrace(
          request,
          {.model = model->executor,
           .spec = model->spec,
           .compute_dtype = model->compute_dtype,
           .limits = parts.limits,
           .encode = EncoderOf(*model),
           .find_tensor =
               [&](absl::string_view name, absl::string_view field) {
                 return parts.tensors.Find(name, field);
               },
           .wave_sharing = model->batch_invariant ? WaveSharing::kTogether
                                                  : WaveSharing::kAlone}));
  for (const PlannedTensor& tensor : plan->tensors) {
    if (tensor.kept_as.empty()) continue;
    RETURN_IF_ERROR(CheckKept(request, tensor, parts));
  }
  return RequestPlan{.model = std::move(model), .plan = std::move(plan)};
}

absl::StatusOr<v1::PlanTraceResponse> PlanOnly(
    const v1::PlanTraceRequest& request, const PlanningParts& parts) {
  RETURN_IF_ERROR(RefuseUnknown(request, ""));
  ASSIGN_OR_RETURN(const RequestPlan planned,
                   PlanRequest(request.trace(), parts));
  v1::PlanTraceResponse response = DescribePlan(*planned.plan);
  for (v1::RunTokens& tokens : *response.mutable_runs()) {
    AddTexts(*planned.model, tokens);
  }
  return response;
}

}  // namespace phitap
