#include "server/plan/program/run_value.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/plan/captures/selection.h"
#include "server/plan/order/reach.h"
#include "server/spec/quote.h"

namespace phitap {
namespace {

absl::Status NotNamed(absl::string_view field, absl::string_view what,
                      absl::string_view valid) {
  return InvalidField({.field = std::string(field),
                       .problem = absl::StrCat(what, " is not named"),
                       .valid = std::string(valid)});
}

absl::StatusOr<int> RunOf(const PlanParts& parts, const v1::RunValue& value,
                          const RunValueDefaults& defaults,
                          absl::string_view field) {
  const std::string path = absl::StrCat(field, ".run");
  if (!value.run().empty()) return FindRun(parts.runs, value.run(), path);
  if (defaults.run >= 0) return defaults.run;
  return NotNamed(path, "the run", "the label of a run");
}

absl::StatusOr<HookPoint> PointOf(const PlanParts& parts,
                                  const v1::RunValue& value,
                                  const RunValueDefaults& defaults,
                                  absl::string_view field) {
  const std::string path = absl::StrCat(field, ".hook_point");
  if (!value.hook_point().empty()) {
    return ParseOneHookPoint(value.hook_point(), parts.context.spec, path);
  }
  if (defaults.point.has_value()) return *defaults.point;
  return NotNamed(path, "the hook point", "one hook point");
}

// A default comes from another value, which may have other dimensions.
absl::Status CheckDefault(const PlanParts& parts,
                          const ResolvedSelection& selection, HookPoint point,
                          const PlannedRun& run, absl::string_view field) {
  const HookEntry& entry = EntryOf(point.hook);
  const int64_t token_count = static_cast<int64_t>(run.ids.size());
  int64_t used = 0;
  for (size_t axis = 0; axis < entry.dimensions.size(); ++axis) {
    const std::vector<int64_t>* kept = KeptIndices(selection, entry, axis);
    if (kept == nullptr) continue;
    used += static_cast<int64_t>(kept->size());
    const int64_t size =
        SizeOf(entry.dimensions[axis], parts.context.spec, token_count);
    const int64_t largest = *std::max_element(kept->begin(), kept->end());
    if (largest < size) continue;
    return InvalidField(
        {.field = absl::StrCat(field, ".selection"),
         .problem = absl::StrCat(
             "index ", largest, " of the part that is edited is outside the ",
             size, " of dimension ", Name(entry.dimensions[axis]), " in run ",
             Quoted(run.label)),
         .valid = "a selection of this run's own"});
  }
  if (used == IndexCount(selection)) return absl::OkStatus();
  return InvalidField(
      {.field = absl::StrCat(field, ".selection"),
       .problem = absl::StrCat("the part that is edited is chosen along a "
                               "dimension that ",
                               entry.name, " does not have"),
       .valid = absl::StrCat("a selection for ", entry.name)});
}

// Programs see the prompt's pass.
absl::Status CheckSteps(const v1::Selection& selection,
                        absl::string_view field) {
  if (!selection.has_steps()) return absl::OkStatus();
  const v1::IndexSet& steps = selection.steps();
  if (steps.ranges().empty() && steps.indices_size() == 1 &&
      steps.indices(0) == 0) {
    return absl::OkStatus();
  }
  return InvalidField({.field = absl::StrCat(field, ".steps"),
                       .problem = "values are read in the prompt's pass",
                       .valid = "unset, or 0"});
}

absl::StatusOr<ResolvedSelection> PartOf(const PlanParts& parts,
                                         const v1::RunValue& value,
                                         const RunValueDefaults& defaults,
                                         const RunRead& read,
                                         absl::string_view field) {
  const PlannedRun& run = parts.plan.runs[read.run];
  if (value.has_selection()) {
    const std::string path = absl::StrCat(field, ".selection");
    RETURN_IF_ERROR(CheckSteps(value.selection(), path));
    v1::Selection selection = value.selection();
    selection.clear_steps();
    ASSIGN_OR_RETURN(
        const CheckedSelection checked,
        CheckedSelection::Create(selection, EntryOf(read.point.hook),
                                 parts.context.spec, path));
    return checked.ResolveFor(run);
  }
  if (!defaults.selection.has_value()) return ResolvedSelection();
  RETURN_IF_ERROR(
      CheckDefault(parts, *defaults.selection, read.point, run, field));
  return *defaults.selection;
}

}  // namespace

absl::StatusOr<HookPoint> ParseOneHookPoint(absl::string_view text,
                                            const ModelSpec& spec,
                                            absl::string_view field) {
  ASSIGN_OR_RETURN(const std::vector<HookPoint> points,
                   ParseHookPoints(text, spec, field));
  if (points.size() == 1) return points.front();
  return InvalidField({.field = std::string(field),
                       .problem = absl::StrCat(Quoted(text), " names ",
                                               points.size(), " hook points"),
                       .valid = "one hook point"});
}

absl::StatusOr<RunRead> ResolveRunValue(const PlanParts& parts,
                                        const v1::RunValue& value,
                                        const RunValueDefaults& defaults,
                                        absl::string_view field) {
  RunRead read;
  ASSIGN_OR_RETURN(read.run, RunOf(parts, value, defaults, field));
  ASSIGN_OR_RETURN(read.point, PointOf(parts, value, defaults, field));
  read.read_at = ReadPoint(read.point);
  if (value.read_time() == v1::READ_TIME_BEFORE) read.time = ReadTime::kBefore;
  ASSIGN_OR_RETURN(read.selection, PartOf(parts, value, defaults, read, field));
  return read;
}

}  // namespace phitap
