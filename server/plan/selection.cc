#include "server/plan/selection.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/plan/index_set.h"
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

absl::StatusOr<ResolvedSelection> CheckedSelection::ResolveFor(
    const PlannedRun& run) const {
  ResolvedSelection resolved;
  for (size_t axis = 0; axis < entry_->dimensions.size(); ++axis) {
    const Chooser* chooser = ChooserOf(*entry_, axis);
    if (chooser == nullptr) continue;
    const bool by_token = chooser == &kPositions && !token_ids_.empty();
    if (!by_token && !(selection_->*chooser->is_set)()) continue;
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
