#include "server/plan/captures/selection.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/plan/captures/index_set.h"
#include "server/plan/runs/plan_generation.h"
#include "server/spec/quote.h"

namespace phitap {
namespace {

using Indices = std::optional<std::vector<int64_t>>;

bool IsHeads(Dimension dimension) {
  return dimension == Dimension::kNumHeads ||
         dimension == Dimension::kNumKvHeads;
}

// Which field of a selection chooses along a dimension.
struct Chooser {
  absl::string_view name;
  bool (v1::Selection::*is_set)() const;
  const v1::IndexSet& (v1::Selection::*set)() const;
  Indices ResolvedSelection::*indices;
};

constexpr Chooser kPositions = {"positions", &v1::Selection::has_positions,
                                &v1::Selection::positions,
                                &ResolvedSelection::positions};
constexpr Chooser kHeads = {"heads", &v1::Selection::has_heads,
                            &v1::Selection::heads, &ResolvedSelection::heads};
constexpr Chooser kFeatures = {"features", &v1::Selection::has_features,
                               &v1::Selection::features,
                               &ResolvedSelection::features};
constexpr Chooser kQueries = {"queries", &v1::Selection::has_queries,
                              &v1::Selection::queries,
                              &ResolvedSelection::queries};
constexpr Chooser kKeys = {"keys", &v1::Selection::has_keys,
                           &v1::Selection::keys, &ResolvedSelection::keys};
constexpr const Chooser* kChoosers[] = {&kPositions, &kHeads, &kFeatures,
                                        &kQueries, &kKeys};

// The field that chooses along dimension number `axis`; null for [pair].
const Chooser* ChooserOf(const HookEntry& entry, size_t axis) {
  const Dimension dimension = entry.dimensions[axis];
  if (dimension == Dimension::kSeq) return &kPositions;
  if (dimension == Dimension::kQuery) return &kQueries;
  if (dimension == Dimension::kKey) return &kKeys;
  if (IsHeads(dimension)) return &kHeads;
  return dimension == Dimension::kPair ? nullptr : &kFeatures;
}

std::optional<size_t> AxisOf(const HookEntry& entry, const Chooser& chooser) {
  for (size_t axis = 0; axis < entry.dimensions.size(); ++axis) {
    if (ChooserOf(entry, axis) == &chooser) return axis;
  }
  return std::nullopt;
}

std::string Layout(const HookEntry& entry) {
  return absl::StrCat(entry.name, " [",
                      absl::StrJoin(entry.dimensions, ", ",
                                    [](std::string* out, Dimension dimension) {
                                      absl::StrAppend(out, Name(dimension));
                                    }),
                      "]");
}

// The fields that values of `entry` can be selected by.
std::string FieldsFor(const HookEntry& entry) {
  std::vector<absl::string_view> names;
  for (size_t axis = 0; axis < entry.dimensions.size(); ++axis) {
    const Chooser* chooser = ChooserOf(entry, axis);
    if (chooser != nullptr) names.push_back(chooser->name);
    if (chooser == &kPositions) names.push_back("token_ids");
  }
  return names.empty() ? "no selection" : absl::StrJoin(names, ", ");
}

absl::Status NoDimension(const HookEntry& entry, absl::string_view field,
                         absl::string_view name) {
  return InvalidField(
      {.field = absl::StrCat(field, ".", name),
       .problem = absl::StrCat(Layout(entry), " has no dimension for it"),
       .valid = FieldsFor(entry)});
}

Axis AxisFor(const HookEntry& entry, size_t axis, const ModelSpec& spec,
             const PlannedRun& run) {
  const Dimension dimension = entry.dimensions[axis];
  const int64_t size =
      SizeOf(dimension, spec, static_cast<int64_t>(run.ids.size()));
  return {.size = size,
          .extent = DependsOnPrompt(dimension)
                        ? absl::StrCat("the ", size, " tokens of run ",
                                       Quoted(run.label))
                        : absl::StrCat("the ", size, " ", Name(dimension),
                                       " of ", entry.name)};
}

bool IsAllInOrder(const std::vector<int64_t>& indices, int64_t size) {
  if (static_cast<int64_t>(indices.size()) != size) return false;
  for (int64_t i = 0; i < size; ++i) {
    if (indices[i] != i) return false;
  }
  return true;
}

absl::Status CheckSelection(const v1::Selection& selection,
                            const HookEntry& entry, const ModelSpec& spec,
                            absl::string_view field) {
  for (const Chooser* chooser : kChoosers) {
    if ((selection.*chooser->is_set)() && !AxisOf(entry, *chooser)) {
      return NoDimension(entry, field, chooser->name);
    }
  }
  if (selection.token_ids().empty()) return absl::OkStatus();
  if (!AxisOf(entry, kPositions)) return NoDimension(entry, field, "token_ids");
  if (selection.has_positions()) {
    return InvalidField({.field = absl::StrCat(field, ".token_ids"),
                         .problem = "is set beside positions",
                         .valid = "one of positions and token_ids"});
  }
  for (int i = 0; i < selection.token_ids_size(); ++i) {
    const int32_t id = selection.token_ids(i);
    if (id >= 0 && id < spec.vocab_size) continue;
    return InvalidField(
        {.field = absl::StrCat(field, ".token_ids[", i, "]"),
         .problem = absl::StrCat(id, " is not in the vocabulary"),
         .valid = absl::StrCat("0 to ", spec.vocab_size - 1)});
  }
  return absl::OkStatus();
}

}  // namespace

CheckedSelection::CheckedSelection(const v1::Selection& selection,
                                   const HookEntry& entry,
                                   const ModelSpec& spec,
                                   absl::string_view field)
    : selection_(&selection),
      entry_(&entry),
      spec_(&spec),
      field_(field),
      token_ids_(selection.token_ids().begin(), selection.token_ids().end()) {}

absl::StatusOr<CheckedSelection> CheckedSelection::Create(
    const v1::Selection& selection, const HookEntry& entry,
    const ModelSpec& spec, absl::string_view field) {
  RETURN_IF_ERROR(CheckSelection(selection, entry, spec, field));
  return CheckedSelection(selection, entry, spec, field);
}

absl::StatusOr<std::vector<int64_t>> CheckedSelection::PositionsOfTokens(
    const PlannedRun& run) const {
  std::vector<int64_t> positions;
  for (size_t i = 0; i < run.ids.size(); ++i) {
    if (token_ids_.contains(run.ids[i])) positions.push_back(i);
  }
  if (!positions.empty()) return positions;
  return InvalidField(
      {.field = absl::StrCat(field_, ".token_ids"),
       .problem =
           absl::StrCat("run ", Quoted(run.label), " has none of these tokens"),
       .valid = "ids that are in the prompt of every run that is read"});
}

bool CheckedSelection::HasTokenOf(const PlannedRun& run) const {
  return std::any_of(run.ids.begin(), run.ids.end(),
                     [&](int32_t id) { return token_ids_.contains(id); });
}

bool CheckedSelection::NumbersPositions() const {
  return selection_->has_positions() || selection_->has_queries();
}

absl::StatusOr<StepSelection> CheckedSelection::GivenSteps(
    const PlannedRun& run) const {
  const int passes = PassCount(run);
  const std::string field = field_ + ".steps";
  const Axis axis = {
      .size = passes,
      .extent = absl::StrCat("the ", passes, passes == 1 ? " pass" : " passes",
                             " of run ", Quoted(run.label),
                             run.generation.has_value()
                                 ? " (its last token is never read)"
                                 : ", which does not generate")};
  ASSIGN_OR_RETURN(std::vector<int64_t> indices,
                   ResolveIndices(selection_->steps(), axis, field));
  std::sort(indices.begin(), indices.end());
  StepSelection steps = {.prompt = indices.front() == 0};
  steps.steps.assign(indices.begin() + (steps.prompt ? 1 : 0), indices.end());
  if (static_cast<int>(steps.steps.size()) == passes - 1 && passes > 1) {
    steps.every_step = true;
    steps.steps.clear();
  }
  if (steps.prompt || !NumbersPositions()) return steps;
  return InvalidField(
      {.field = field,
       .problem = "leaves the prompt out, whose positions are selected",
       .valid = "steps with 0, or no positions and queries"});
}

absl::StatusOr<StepSelection> CheckedSelection::ResolveSteps(
    const PlannedRun& run) const {
  StepSelection steps = {.every_step =
                             PassCount(run) > 1 && !NumbersPositions()};
  if (selection_->has_steps()) {
    ASSIGN_OR_RETURN(steps, GivenSteps(run));
  }
  if (token_ids_.empty() || !steps.has_generated()) return steps;
  steps.token_ids.assign(token_ids_.begin(), token_ids_.end());
  std::sort(steps.token_ids.begin(), steps.token_ids.end());
  // A token may be generated that the prompt lacks.
  steps.prompt = steps.prompt && HasTokenOf(run);
  return steps;
}

absl::StatusOr<ResolvedSelection> CheckedSelection::ResolveIn(
    const PlannedRun& run, bool in_prompt) const {
  ResolvedSelection resolved;
  for (size_t axis = 0; axis < entry_->dimensions.size(); ++axis) {
    const Chooser* chooser = ChooserOf(*entry_, axis);
    if (chooser == nullptr) continue;
    const bool by_token = chooser == &kPositions && !token_ids_.empty();
    if (by_token ? !in_prompt : !(selection_->*chooser->is_set)()) continue;
    const Axis bounds = AxisFor(*entry_, axis, *spec_, run);
    ASSIGN_OR_RETURN(
        std::vector<int64_t> indices,
        by_token ? PositionsOfTokens(run)
                 : ResolveIndices((selection_->*chooser->set)(), bounds,
                                  absl::StrCat(field_, ".", chooser->name)));
    if (IsAllInOrder(indices, bounds.size)) continue;
    resolved.*chooser->indices = std::move(indices);
  }
  return resolved;
}

absl::StatusOr<ResolvedSelection> CheckedSelection::ResolveFor(
    const PlannedRun& run) const {
  if (selection_->has_steps()) {
    return InvalidField({.field = field_ + ".steps",
                         .problem = "values of runs are the prompt's",
                         .valid = "unset"});
  }
  return ResolveIn(run, true);
}

absl::StatusOr<SelectedPart> CheckedSelection::ResolvePart(
    const PlannedRun& run) const {
  SelectedPart part;
  ASSIGN_OR_RETURN(part.steps, ResolveSteps(run));
  ASSIGN_OR_RETURN(part.selection, ResolveIn(run, part.steps.prompt));
  return part;
}

const std::vector<int64_t>* KeptIndices(const ResolvedSelection& selection,
                                        const HookEntry& entry, size_t axis) {
  const Chooser* chooser = ChooserOf(entry, axis);
  if (chooser == nullptr) return nullptr;
  const Indices& indices = selection.*chooser->indices;
  return indices.has_value() ? &*indices : nullptr;
}

int64_t IndexCount(const ResolvedSelection& selection) {
  int64_t count = 0;
  for (const Chooser* chooser : kChoosers) {
    const Indices& indices = selection.*chooser->indices;
    if (indices.has_value()) count += static_cast<int64_t>(indices->size());
  }
  return count;
}

}  // namespace phitap
