#include "server/plan/sweeps/sweep_axis.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/plan/captures/index_set.h"
#include "server/spec/quote.h"

namespace phitap {
namespace {

std::string InterventionField(const SweepParts& parts, int index) {
  return absl::StrCat(parts.field, ".interventions[", index, "]");
}

std::vector<int> LayersOf(const std::vector<HookPoint>& points) {
  std::vector<int> layers;
  for (HookPoint point : points) layers.push_back(point.layer);
  return layers;
}

bool Has(const HookEntry& entry, Dimension dimension) {
  return std::find(entry.dimensions.begin(), entry.dimensions.end(),
                   dimension) != entry.dimensions.end();
}

absl::Status SaidTwice(const std::string& field, absl::string_view axis) {
  return InvalidField(
      {.field = field,
       .problem = absl::StrCat("says what the sweep's ", axis, " axis says"),
       .valid = absl::StrCat("unset beside a ", axis, " axis")});
}

absl::Status NoPlaceFor(const SweepParts& parts, int index,
                        absl::string_view axis, std::string valid) {
  return InvalidField(
      {.field = absl::StrCat(InterventionField(parts, index), ".hook_points"),
       .problem =
           absl::StrCat(Quoted(parts.sweep.interventions(index).hook_points()),
                        " has nothing for the sweep's ", axis, " axis"),
       .valid = std::move(valid)});
}

absl::Status CheckPositions(const SweepParts& parts, int index) {
  const v1::Selection& selection = parts.sweep.interventions(index).selection();
  const HookEntry& entry = EntryOf(parts.points[index].front().hook);
  const std::string field =
      absl::StrCat(InterventionField(parts, index), ".selection.");
  if (selection.has_positions())
    return SaidTwice(field + "positions", "positions");
  if (!selection.token_ids().empty()) {
    return SaidTwice(field + "token_ids", "positions");
  }
  if (Has(entry, Dimension::kQuery) && selection.has_queries()) {
    return SaidTwice(field + "queries", "positions");
  }
  if (Has(entry, Dimension::kSeq) || Has(entry, Dimension::kQuery)) {
    return absl::OkStatus();
  }
  return NoPlaceFor(parts, index, "positions", "hook points with a position");
}

// How many heads the values of an intervention have; 0 for none.
int64_t HeadCount(const SweepParts& parts, int index) {
  const HookEntry& entry = EntryOf(parts.points[index].front().hook);
  if (Has(entry, Dimension::kNumHeads)) return parts.spec.num_heads;
  return Has(entry, Dimension::kNumKvHeads) ? parts.spec.num_kv_heads : 0;
}

// Whether a scales axis says anything to an intervention.
absl::StatusOr<bool> TakesScale(const SweepParts& parts, int index) {
  const v1::Intervention& intervention = parts.sweep.interventions(index);
  if (intervention.has_add() || intervention.has_noise()) return true;
  if (!intervention.has_scale()) return false;
  if (intervention.scale().value().has_number()) return true;
  return InvalidField(
      {.field = absl::StrCat(InterventionField(parts, index), ".scale.value"),
       .problem = "is no number for the sweep's scales axis to replace",
       .valid = "number"});
}

}  // namespace

absl::StatusOr<SweepAxis> SweepAxis::OfLayers(const SweepParts& parts,
                                              const std::string& field,
                                              const v1::LayersAxis& axis) {
  if (axis.window() < 0) {
    return InvalidField({.field = field + ".window",
                         .problem = absl::StrCat(axis.window(), " layers"),
                         .valid = "1 or more; unset for 1"});
  }
  const std::vector<int> layers = LayersOf(parts.points.front());
  for (size_t i = 0; i < parts.points.size(); ++i) {
    const int index = static_cast<int>(i);
    if (!HasLayer(parts.points[i].front().hook)) {
      return NoPlaceFor(parts, index, "layers", "hook points of layers");
    }
    if (LayersOf(parts.points[i]) == layers) continue;
    return InvalidField(
        {.field = InterventionField(parts, index) + ".hook_points",
         .problem = "names other layers than the sweep's first intervention",
         .valid = absl::StrCat("layers ", absl::StrJoin(layers, ", "))});
  }
  const int64_t window = std::max(axis.window(), 1);
  return SweepAxis("layer", Layers{.layers = layers, .window = window});
}

absl::StatusOr<SweepAxis> SweepAxis::OfPositions(
    const SweepParts& parts, const std::string& field,
    const v1::PositionsAxis& axis) {
  for (int i = 0; i < parts.sweep.interventions_size(); ++i) {
    RETURN_IF_ERROR(CheckPositions(parts, i));
  }
  const int64_t count = static_cast<int64_t>(parts.base_run.ids.size());
  std::vector<int64_t> positions(count);
  std::iota(positions.begin(), positions.end(), 0);
  if (axis.has_positions()) {
    const Axis tokens = {
        .size = count,
        .extent = absl::StrCat("the ", count, " tokens of run ",
                               Quoted(parts.base_run.label))};
    ASSIGN_OR_RETURN(positions, ResolveIndices(axis.positions(), tokens,
                                               field + ".positions"));
  }
  return SweepAxis("position", Positions{std::move(positions)});
}

absl::StatusOr<SweepAxis> SweepAxis::OfHeads(const SweepParts& parts,
                                             const std::string& field,
                                             const v1::HeadsAxis& axis) {
  const int64_t count = HeadCount(parts, 0);
  for (int i = 0; i < parts.sweep.interventions_size(); ++i) {
    if (HeadCount(parts, i) == 0) {
      return NoPlaceFor(parts, i, "heads", "hook points with heads");
    }
    if (parts.sweep.interventions(i).selection().has_heads()) {
      return SaidTwice(InterventionField(parts, i) + ".selection.heads",
                       "heads");
    }
    if (HeadCount(parts, i) == count) continue;
    return InvalidField(
        {.field = InterventionField(parts, i) + ".hook_points",
         .problem = absl::StrCat("has ", HeadCount(parts, i), " heads"),
         .valid = absl::StrCat("hook points of ", count,
                               " heads, as the sweep's first intervention")});
  }
  std::vector<int64_t> heads(count);
  std::iota(heads.begin(), heads.end(), 0);
  if (axis.has_heads()) {
    const Axis all = {.size = count,
                      .extent = absl::StrCat("the ", count, " heads")};
    ASSIGN_OR_RETURN(heads,
                     ResolveIndices(axis.heads(), all, field + ".heads"));
  }
  return SweepAxis("head", Heads{std::move(heads)});
}

absl::StatusOr<SweepAxis> SweepAxis::OfScales(const SweepParts& parts,
                                              const std::string& field,
                                              const v1::ScalesAxis& axis) {
  if (axis.scales().empty()) {
    return InvalidField({.field = field + ".scales",
                         .problem = "none given",
                         .valid = "at least one number"});
  }
  for (int i = 0; i < axis.scales_size(); ++i) {
    if (std::isfinite(static_cast<float>(axis.scales(i)))) continue;
    return InvalidField(
        {.field = absl::StrCat(field, ".scales[", i, "]"),
         .problem = absl::StrCat(axis.scales(i), " is no float32 number"),
         .valid = "a finite number"});
  }
  bool any = false;
  for (int i = 0; i < parts.sweep.interventions_size(); ++i) {
    ASSIGN_OR_RETURN(const bool takes, TakesScale(parts, i));
    any |= takes;
  }
  if (!any) {
    return InvalidField(
        {.field = field,
         .problem = "none of the sweep's interventions has a scale",
         .valid = "an add, noise or scale edit among them"});
  }
  return SweepAxis("scale",
                   Scales{{axis.scales().begin(), axis.scales().end()}});
}

absl::StatusOr<SweepAxis> SweepAxis::Create(const SweepParts& parts,
                                            int index) {
  const v1::SweepAxis& axis = parts.sweep.axes(index);
  const std::string field = absl::StrCat(parts.field, ".axes[", index, "]");
  switch (axis.axis_case()) {
    case v1::SweepAxis::kLayers:
      return OfLayers(parts, field + ".layers", axis.layers());
    case v1::SweepAxis::kPositions:
      return OfPositions(parts, field + ".positions", axis.positions());
    case v1::SweepAxis::kHeads:
      return OfHeads(parts, field + ".heads", axis.heads());
    case v1::SweepAxis::kScales:
      return OfScales(parts, field + ".scales", axis.scales());
    default:
      return InvalidField({.field = field,
                           .problem = "says nothing",
                           .valid = "layers, positions, heads or scales"});
  }
}

int64_t SweepAxis::size() const {
  if (const auto* layers = std::get_if<Layers>(&values_)) {
    return static_cast<int64_t>(layers->layers.size());
  }
  if (const auto* positions = std::get_if<Positions>(&values_)) {
    return static_cast<int64_t>(positions->indices.size());
  }
  if (const auto* heads = std::get_if<Heads>(&values_)) {
    return static_cast<int64_t>(heads->indices.size());
  }
  return static_cast<int64_t>(std::get<Scales>(values_).values.size());
}

void SweepAxis::Apply(int64_t index, SweepCell& cell) const {
  if (const auto* layers = std::get_if<Layers>(&values_)) {
    const auto first = layers->layers.begin() + index;
    cell.layers.emplace(first,
                        first + std::min(layers->window, size() - index));
  } else if (const auto* positions = std::get_if<Positions>(&values_)) {
    cell.position = positions->indices[index];
  } else if (const auto* heads = std::get_if<Heads>(&values_)) {
    cell.head = heads->indices[index];
  } else {
    cell.scale = std::get<Scales>(values_).values[index];
  }
}

}  // namespace phitap
