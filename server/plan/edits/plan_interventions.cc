#include "server/plan/edits/plan_interventions.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/plan/edits/edit_sources.h"
#include "server/plan/edits/edited_part.h"
#include "server/plan/edits/intervention_place.h"
#include "server/plan/edits/lower_edit.h"
#include "server/plan/order/reach.h"
#include "server/plan/program/shapes.h"

namespace phitap {
namespace {

using Interventions = google::protobuf::RepeatedPtrField<v1::Intervention>;

// Interventions that one run makes.
struct RunEdits {
  const Interventions& interventions;
  // "runs[1]" or "sweeps[0]"
  std::string owner;
  int run = 0;
  // The run whose passes selections speak of: the base run, for the
  // interventions that a cell takes over from it.
  int steps_run = 0;
  // What a sweep's axes say; null for a run's own.
  const SweepCell* cell = nullptr;
};

// Adds writes to a plan and holds the limits that they share.
class InterventionPlanner {
 public:
  InterventionPlanner(const PlanParts& parts, const NodeIndex& nodes)
      : parts_(parts), sources_(parts, nodes) {}

  absl::Status PlanRun(int run) {
    return Plan({.interventions = parts_.request.runs(run).interventions(),
                 .owner = absl::StrCat("runs[", run, "]"),
                 .run = run,
                 .steps_run = run});
  }

  absl::Status PlanCell(const SweepCell& cell, int run) {
    RETURN_IF_ERROR(Plan(
        {.interventions = parts_.request.runs(cell.base_run).interventions(),
         .owner = absl::StrCat("runs[", cell.base_run, "]"),
         .run = run,
         .steps_run = cell.base_run}));
    return Plan(
        {.interventions = parts_.request.sweeps(cell.sweep).interventions(),
         .owner = absl::StrCat("sweeps[", cell.sweep, "]"),
         .run = run,
         .steps_run = run,
         .cell = &cell});
  }

 private:
  absl::Status Plan(const RunEdits& edits) {
    for (int i = 0; i < edits.interventions.size(); ++i) {
      RETURN_IF_ERROR(
          PlanOne(edits, edits.interventions[i],
                  absl::StrCat(edits.owner, ".interventions[", i, "]")));
    }
    return absl::OkStatus();
  }

  // Once for each message, however many cells repeat it.
  absl::StatusOr<const InterventionPlace*> PlaceOf(
      const v1::Intervention& intervention, const std::string& field) {
    auto& place = places_[&intervention];
    if (place == nullptr) {
      ASSIGN_OR_RETURN(InterventionPlace resolved,
                       ResolvePlace(intervention, parts_.context.spec, field));
      place = std::make_unique<InterventionPlace>(std::move(resolved));
    }
    return place.get();
  }

  absl::Status PlanOne(const RunEdits& edits,
                       const v1::Intervention& intervention,
                       const std::string& field) {
    ASSIGN_OR_RETURN(const InterventionPlace* place,
                     PlaceOf(intervention, field));
    ASSIGN_OR_RETURN(
        SelectedPart selected,
        place->selection.ResolvePart(parts_.plan.runs[edits.steps_run]));
    if (edits.run != edits.steps_run) {
      // A cell goes through the base run's prompt alone.
      if (!selected.steps.prompt) return absl::OkStatus();
      selected.steps = StepSelection();
    }
    const Hook hook = place->points.front().hook;
    if (edits.cell != nullptr) Narrow(*edits.cell, hook, selected.selection);
    EditedPart part = {
        .run = edits.run,
        .selection = std::move(selected.selection),
        .steps = std::move(selected.steps),
        .shape = {},
        .field = field,
        .scale = edits.cell == nullptr ? std::nullopt : edits.cell->scale};
    part.shape = SelectedShape(
        hook, part.selection, parts_.context.spec,
        static_cast<int64_t>(parts_.plan.runs[edits.run].ids.size()));
    for (HookPoint point : place->points) {
      if (edits.cell != nullptr && !Edits(*edits.cell, point)) continue;
      part.point = point;
      RETURN_IF_ERROR(Lower(intervention, part));
    }
    return absl::OkStatus();
  }

  static bool Edits(const SweepCell& cell, HookPoint point) {
    return !cell.layers.has_value() ||
           std::binary_search(cell.layers->begin(), cell.layers->end(),
                              point.layer);
  }

  // To the cell's position and head.
  static void Narrow(const SweepCell& cell, Hook hook,
                     ResolvedSelection& selection) {
    if (cell.head.has_value()) selection.heads = {*cell.head};
    if (!cell.position.has_value()) return;
    (IsPattern(hook) ? selection.queries
                     : selection.positions) = {*cell.position};
  }

  absl::Status Lower(const v1::Intervention& intervention,
                     const EditedPart& part) {
    int condition = -1;
    if (!intervention.when().empty()) {
      ASSIGN_OR_RETURN(condition,
                       sources_.AddCondition(intervention.when(), part,
                                             part.field + ".when"));
    }
    if (intervention.has_skip()) return LowerSkip(part, condition);
    ASSIGN_OR_RETURN(const int value,
                     LowerEdit(parts_, sources_, intervention, part));
    return AddWrite(part, part.point, value, condition);
  }

  // A layer passes its input on. That is what it does where attention and MLP
  // add nothing, in the passes of generated tokens, whose layer inputs are no
  // values of the prompt's pass.
  absl::Status LowerSkip(const EditedPart& part, int condition) {
    const std::string field = part.field + ".skip";
    if (part.point.hook == Hook::kLayerOutput && !part.steps.has_generated()) {
      const HookPoint input = {.hook = Hook::kLayerInput,
                               .layer = part.point.layer};
      ASSIGN_OR_RETURN(const int value,
                       parts_.builder.AddRead({.run = part.run,
                                               .point = input,
                                               .read_at = ReadPoint(input),
                                               .selection = part.selection},
                                              field));
      return AddWrite(part, part.point, value, condition);
    }
    ASSIGN_OR_RETURN(const int nothing, parts_.builder.AddNumber(0, field));
    if (part.point.hook != Hook::kLayerOutput) {
      return AddWrite(part, part.point, nothing, condition);
    }
    for (Hook hook : {Hook::kAttentionOutput, Hook::kMlpOutput}) {
      RETURN_IF_ERROR(AddWrite(part, {.hook = hook, .layer = part.point.layer},
                               nothing, condition));
    }
    return absl::OkStatus();
  }

  absl::Status AddWrite(const EditedPart& part, HookPoint point, int value,
                        int condition) {
    RETURN_IF_ERROR(CheckCounts(part));
    parts_.plan.writes.push_back({.run = part.run,
                                  .point = point,
                                  .selection = part.selection,
                                  .steps = part.steps,
                                  .value = value,
                                  .condition = condition,
                                  .field = part.field});
    return absl::OkStatus();
  }

  absl::Status CheckCounts(const EditedPart& part) {
    const Limits& limits = parts_.context.limits;
    const int64_t writes = static_cast<int64_t>(parts_.plan.writes.size()) + 1;
    if (writes > limits.max_interventions) {
      return InvalidField(
          {.field = part.field,
           .problem = absl::StrCat("brings the request to ", writes,
                                   " edits, layer by layer and cell by cell"),
           .valid = absl::StrCat("at most ", limits.max_interventions)},
          absl::StatusCode::kResourceExhausted);
    }
    index_count_ += IndexCount(part.selection) +
                    static_cast<int64_t>(part.steps.steps.size() +
                                         part.steps.token_ids.size());
    if (index_count_ <= limits.max_selected_indices) return absl::OkStatus();
    return InvalidField(
        {.field = part.field,
         .problem = absl::StrCat("brings the request's edits to ", index_count_,
                                 " selected indices and token ids"),
         .valid = absl::StrCat("at most ", limits.max_selected_indices)});
  }

  const PlanParts& parts_;
  EditSources sources_;
  absl::flat_hash_map<const v1::Intervention*,
                      std::unique_ptr<InterventionPlace>>
      places_;
  int64_t index_count_ = 0;
};

}  // namespace

absl::Status PlanInterventions(const PlanParts& parts, const NodeIndex& nodes,
                               const std::vector<SweepCell>& cells) {
  InterventionPlanner planner(parts, nodes);
  const int own_runs = parts.request.runs_size();
  for (int run = 0; run < own_runs; ++run) {
    RETURN_IF_ERROR(planner.PlanRun(run));
  }
  for (size_t i = 0; i < cells.size(); ++i) {
    RETURN_IF_ERROR(planner.PlanCell(cells[i], own_runs + static_cast<int>(i)));
  }
  return absl::OkStatus();
}

}  // namespace phitap
