#include "server/plan/plan_trace.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/plan/captures/plan_captures.h"
#include "server/plan/edits/edited_part.h"
#include "server/plan/edits/plan_interventions.h"
#include "server/plan/memory/working_bytes.h"
#include "server/plan/order/forward_order.h"
#include "server/plan/order/plan_groups.h"
#include "server/plan/order/reach.h"
#include "server/plan/program/plan_gradients.h"
#include "server/plan/program/plan_program.h"
#include "server/plan/program/program_builder.h"
#include "server/plan/refuse_unknown.h"
#include "server/plan/runs/plan_runs.h"
#include "server/plan/sharing/own_tokens.h"
#include "server/plan/sharing/plan_sharing.h"
#include "server/plan/sweeps/expand_sweeps.h"
#include "server/plan/wire_type.h"

namespace phitap {
namespace {

absl::Status CheckAsksForSomething(const v1::TraceRequest& request) {
  const bool generates =
      std::any_of(request.runs().begin(), request.runs().end(),
                  [](const v1::Run& run) { return run.has_generation(); });
  if (generates || !request.captures().empty() ||
      !request.gradients().empty() || !request.sweeps().empty()) {
    return absl::OkStatus();
  }
  return InvalidField(
      {.field = "captures",
       .problem = "none given",
       .valid = "at least one capture, gradient, sweep or run that generates"});
}

// Scores and probabilities can be written in EAGER alone, in which every run of
// the request is computed then.
absl::Status ChooseAttention(const v1::TraceRequest& request, TracePlan& plan) {
  for (const PlannedWrite& write : plan.writes) {
    if (!IsPattern(write.point.hook)) continue;
    if (request.options().attention() == v1::ATTENTION_SDPA) {
      return InvalidField(
          {.field = "options.attention",
           .problem = absl::StrCat("ATTENTION_SDPA makes no ",
                                   EntryOf(write.point.hook).name, ", which ",
                                   write.field, " edits"),
           .valid = "ATTENTION_EAGER or unset"});
    }
    plan.attention = Attention::kEager;
    return absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::Status CheckPriority(int priority) {
  constexpr int kHighest = 10;
  if (priority >= 0 && priority <= kHighest) return absl::OkStatus();
  return InvalidField({.field = "options.priority",
                       .problem = absl::StrCat("is ", priority),
                       .valid = absl::StrCat("0 to ", kHighest)});
}

// What is asked of the runs, lowered to nodes, writes, captures and tensors.
absl::Status PlanAsks(const v1::TraceRequest& request,
                      const PlanContext& context, TracePlan& plan) {
  ASSIGN_OR_RETURN(const RunIndex runs, IndexRuns(request, context.limits));
  ASSIGN_OR_RETURN(const ExpandedSweeps sweeps,
                   ExpandSweeps(request, context, runs, plan));
  ProgramBuilder builder(context, plan);
  const PlanParts parts = {.request = request,
                           .context = context,
                           .runs = runs,
                           .plan = plan,
                           .builder = builder};
  ASSIGN_OR_RETURN(const NodeIndex nodes, PlanProgram(parts));
  RETURN_IF_ERROR(PlanInterventions(parts, nodes, sweeps.cells));
  RETURN_IF_ERROR(ChooseAttention(request, plan));
  RETURN_IF_ERROR(PlanCaptures(parts, nodes));
  RETURN_IF_ERROR(PlanGradients(parts, nodes));
  RETURN_IF_ERROR(PlanSweepMetrics(parts, nodes, sweeps.grids));
  return CheckAnswer(parts);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const TracePlan>> PlanTrace(
    const v1::TraceRequest& request, const PlanContext& context) {
  RETURN_IF_ERROR(RefuseUnknown(request, ""));
  auto plan = std::make_shared<TracePlan>();
  const v1::TraceOptions& options = request.options();
  plan->model = context.model;
  plan->numerics = FromWire(options.numerics());
  plan->attention = FromWire(options.attention());
  plan->longrope_cache = FromWire(options.longrope_cache());
  plan->isolate = options.isolate();
  RETURN_IF_ERROR(CheckPriority(options.priority()));
  plan->priority = options.priority();
  plan->report_progress = options.report_progress();
  ASSIGN_OR_RETURN(plan->runs, PlanRuns(request, context));
  RETURN_IF_ERROR(CheckAsksForSomething(request));
  RETURN_IF_ERROR(PlanAsks(request, context, *plan));
  PlaceReads(*plan);
  PlanReach(context.spec, *plan);
  PlanSharing(context, *plan);
  CountOwnTokens(*plan);
  RETURN_IF_ERROR(PlanGroups(context, *plan));
  RETURN_IF_ERROR(CountWorkingBytes(context, *plan));
  CountTokenLayers(context.spec, *plan);
  return plan;
}

}  // namespace phitap
