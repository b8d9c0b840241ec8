#include "server/plan/plan_trace.h"

#include "server/base/status_macros.h"
#include "server/plan/plan_captures.h"
#include "server/plan/plan_runs.h"
#include "server/plan/reach.h"
#include "server/plan/refuse_unknown.h"
#include "server/plan/wire_type.h"

namespace phitap {
namespace {

void CountTokenLayers(const ModelSpec& spec, TracePlan& plan) {
  for (const PlannedRun& run : plan.runs) {
    const int64_t token_count = static_cast<int64_t>(run.ids.size());
    plan.token_layers += TokenLayers(run.reach, token_count);
    plan.token_layers_full_depth += spec.num_layers * token_count;
  }
}

}  // namespace

absl::StatusOr<std::shared_ptr<const TracePlan>> PlanTrace(
    const v1::TraceRequest& request, const PlanContext& context) {
  RETURN_IF_ERROR(RefuseUnknown(request, ""));
  auto plan = std::make_shared<TracePlan>();
  plan->model = context.model;
  plan->numerics = FromWire(request.options().numerics());
  plan->attention = FromWire(request.options().attention());
  plan->isolate = request.options().isolate();
  plan->report_progress = request.options().report_progress();
  ASSIGN_OR_RETURN(plan->runs, PlanRuns(request, context));
  RETURN_IF_ERROR(PlanCaptures(request, context, *plan));
  PlanReach(context.spec, *plan);
  CountTokenLayers(context.spec, *plan);
  for (int run = 0; run < static_cast<int>(plan->runs.size()); ++run) {
    plan->groups.push_back({.runs = {run}});
  }
  return plan;
}

}  // namespace phitap
