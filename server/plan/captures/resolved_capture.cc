#include "server/plan/captures/resolved_capture.h"

#include <numeric>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/plan/program/shapes.h"
#include "server/plan/runs/plan_generation.h"
#include "server/plan/runs/plan_runs.h"
#include "server/plan/saturating.h"
#include "server/spec/quote.h"

namespace phitap {
namespace {

// Runs that the caller gave; cells of sweeps follow them.
std::vector<int> OwnRuns(const PlanParts& parts) {
  std::vector<int> runs(parts.request.runs_size());
  std::iota(runs.begin(), runs.end(), 0);
  return runs;
}

absl::StatusOr<std::vector<int>> RunsOf(const PlanParts& parts,
                                        const v1::Capture& capture,
                                        const std::string& field) {
  if (capture.runs().empty()) return OwnRuns(parts);
  std::vector<int> read;
  absl::flat_hash_set<int> seen;
  for (int i = 0; i < capture.runs_size(); ++i) {
    const std::string path = absl::StrCat(field, ".runs[", i, "]");
    ASSIGN_OR_RETURN(const int run, FindRun(parts.runs, capture.runs(i), path));
    if (!seen.insert(run).second) {
      return InvalidField(
          {.field = path,
           .problem =
               absl::StrCat("run ", Quoted(capture.runs(i)), " is named twice"),
           .valid = "each run at most once"});
    }
    read.push_back(run);
  }
  return read;
}

int64_t TokenCount(const PlannedRun& run) {
  return static_cast<int64_t>(run.ids.size());
}

absl::Status CheckValueBytes(const PlanParts& parts,
                             const ResolvedCapture& capture,
                             const SelectedValue& selected,
                             const PlannedRun& run) {
  // Columns are made whether they are selected or not.
  std::vector<int64_t> made = selected.shape;
  made.back() = SizeOf(capture.entry.dimensions.back(), parts.context.spec,
                       TokenCount(run));
  const int64_t made_bytes =
      SaturatingMultiply(SaturatingElements(made), SizeInBytes(selected.dtype));
  const int64_t allowed = parts.context.limits.max_value_bytes;
  if (made_bytes <= allowed) return absl::OkStatus();
  return InvalidField({.field = capture.field,
                       .problem = absl::StrCat(
                           capture.entry.name, " of run ", Quoted(run.label),
                           " has, before selection of columns and reduction, ",
                           made_bytes, " bytes"),
                       .valid = absl::StrCat("at most ", allowed, " bytes")},
                      absl::StatusCode::kResourceExhausted);
}

// The selected part's shape in one pass: a generated token's has one position.
std::vector<int64_t> ShapeIn(int step, const ResolvedCapture& capture,
                             const ResolvedSelection& selection,
                             const PlanParts& parts, const PlannedRun& run) {
  std::vector<int64_t> shape =
      SelectedShape(capture.entry.hook, selection, parts.context.spec,
                    TokenCount(run) + step);
  if (step == 0) return shape;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const Dimension dimension = capture.entry.dimensions[axis];
    if (dimension == Dimension::kSeq || dimension == Dimension::kQuery) {
      shape[axis] = 1;
    }
  }
  return shape;
}

}  // namespace

absl::StatusOr<ResolvedCapture> ResolveCapture(const PlanParts& parts,
                                               int index) {
  const v1::Capture& capture = parts.request.captures(index);
  const ModelSpec& spec = parts.context.spec;
  const std::string field = absl::StrCat("captures[", index, "]");
  ASSIGN_OR_RETURN(std::vector<HookPoint> points,
                   ParseHookPoints(capture.hook_points(), spec,
                                   absl::StrCat(field, ".hook_points")));
  const HookEntry& entry = EntryOf(points.front().hook);
  ASSIGN_OR_RETURN(std::vector<int> read, RunsOf(parts, capture, field));
  ASSIGN_OR_RETURN(CheckedSelection selection,
                   CheckedSelection::Create(capture.selection(), entry, spec,
                                            absl::StrCat(field, ".selection")));
  absl::StatusOr<Reduction> reduction =
      PlanReduction(capture, entry, spec, field);
  RETURN_IF_ERROR(reduction.status());
  ASSIGN_OR_RETURN(const std::optional<DType> wire_type,
                   PlanWireType(capture, entry, field));
  return ResolvedCapture{.index = index,
                         .field = field,
                         .capture = capture,
                         .entry = entry,
                         .points = std::move(points),
                         .runs = std::move(read),
                         .selection = std::move(selection),
                         .time = capture.read_time() == v1::READ_TIME_BEFORE
                                     ? ReadTime::kBefore
                                     : ReadTime::kAfter,
                         .reduction = *std::move(reduction),
                         .wire_type = wire_type};
}

std::vector<int> StepsOf(const StepSelection& steps, const PlannedRun& run) {
  std::vector<int> passes;
  if (steps.prompt) passes.push_back(0);
  if (steps.every_step) {
    for (int t = 1; t < PassCount(run); ++t) passes.push_back(t);
  }
  passes.insert(passes.end(), steps.steps.begin(), steps.steps.end());
  return passes;
}

absl::StatusOr<CapturedValue> ResolveValue(const PlanParts& parts,
                                           const ResolvedCapture& capture,
                                           int run) {
  const PlannedRun& planned = parts.plan.runs[run];
  CapturedValue value;
  ASSIGN_OR_RETURN(value.part, capture.selection.ResolvePart(planned));
  for (int step : StepsOf(value.part.steps, planned)) {
    const SelectedValue selected = {
        .hook = capture.entry.hook,
        .dtype = ValueType(capture.entry.hook, parts.context.compute_dtype),
        .shape = ShapeIn(step, capture, value.part.selection, parts, planned)};
    if (step == 0) {
      RETURN_IF_ERROR(CheckValueBytes(parts, capture, selected, planned));
    }
    ASSIGN_OR_RETURN(std::vector<TensorPart> made,
                     ReducedParts(capture.reduction, selected,
                                  capture.wire_type, capture.field));
    value.steps.push_back({.step = step, .parts = std::move(made)});
  }
  return value;
}

}  // namespace phitap
