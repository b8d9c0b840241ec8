#include "server/plan/edits/lower_edit.h"

#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "server/base/field_error.h"
#include "server/base/host_tensor.h"
#include "server/base/status_macros.h"
#include "server/plan/edits/edit_bounds.h"
#include "server/plan/edits/lower_dictionary.h"
#include "server/plan/edits/lower_projection.h"
#include "server/plan/edits/part_nodes.h"

namespace phitap {
namespace {

using Change = v1::Intervention::ChangeCase;

// Whether the edit looks at a position's last dimension as a vector.
bool IsAlongVectors(Change change) {
  return change == Change::kProjectOut || change == Change::kClampProjection ||
         change == Change::kSwap || change == Change::kSubspace ||
         change == Change::kDictionary;
}

absl::Status CheckPlace(const EditedPart& part, Change change) {
  const Hook hook = part.point.hook;
  if (change == Change::kKnockout && hook != Hook::kAttentionScores) {
    return InvalidField(
        {.field = absl::StrCat(part.field, ".knockout"),
         .problem = absl::StrCat("cuts no attention at ", EntryOf(hook).name),
         .valid = "hook points of attention_scores"});
  }
  if (!IsPattern(hook) || !IsAlongVectors(change)) return absl::OkStatus();
  return InvalidField(
      {.field = absl::StrCat(part.field, ".hook_points"),
       .problem =
           absl::StrCat(EntryOf(hook).name, " is edited element by element"),
       .valid = "set, add, scale, clamp, noise or knockout there"});
}

absl::StatusOr<int> LowerAdd(PartNodes& nodes, const v1::AddEdit& edit) {
  const EditedPart& part = nodes.part();
  ASSIGN_OR_RETURN(
      const int value,
      nodes.sources().AddValue(edit.value(), part, nodes.Field("add.value")));
  const double scale =
      (edit.has_scale() ? edit.scale() : 1) * part.scale.value_or(1);
  ASSIGN_OR_RETURN(
      const int scaled,
      nodes.sources().AddScaled(value, scale, nodes.Field("add.scale")));
  ASSIGN_OR_RETURN(const int x, nodes.Current());
  return nodes.Call(Function::kAdd, {x, scaled});
}

absl::StatusOr<int> ScaleFactor(PartNodes& nodes, const v1::ScaleEdit& edit) {
  const std::string field = nodes.Field("scale.value");
  const EditedPart& part = nodes.part();
  if (part.scale.has_value()) {
    return nodes.builder().AddNumber(*part.scale, field);
  }
  return nodes.sources().AddValue(edit.value(), part, field);
}

absl::StatusOr<int> LowerScale(PartNodes& nodes, const v1::ScaleEdit& edit) {
  ASSIGN_OR_RETURN(const int factor, ScaleFactor(nodes, edit));
  ASSIGN_OR_RETURN(const int x, nodes.Current());
  return nodes.Call(Function::kMultiply, {x, factor});
}

absl::StatusOr<int> LowerClamp(PartNodes& nodes, const v1::ClampEdit& edit) {
  ASSIGN_OR_RETURN(const ClampOp bounds, BoundsOf(edit, nodes.Field("clamp")));
  ASSIGN_OR_RETURN(const int x, nodes.Current());
  return nodes.builder().Add(bounds, {x}, nodes.part().field);
}

absl::StatusOr<int> LowerNoise(PartNodes& nodes, const v1::NoiseEdit& edit) {
  const std::string field = nodes.Field("noise.scale");
  const EditedPart& part = nodes.part();
  if (!edit.has_scale() || edit.scale() < 0) {
    return InvalidField(
        {.field = field,
         .problem = edit.has_scale() ? absl::StrCat(edit.scale(), " is below 0")
                                     : "is not set",
         .valid = "a standard deviation, 0 or more"});
  }
  ASSIGN_OR_RETURN(
      const int noise,
      nodes.builder().AddNoise({.seed = edit.seed()}, part.shape, part.field));
  ASSIGN_OR_RETURN(const int scaled,
                   nodes.sources().AddScaled(
                       noise, edit.scale() * part.scale.value_or(1), field));
  ASSIGN_OR_RETURN(const int x, nodes.Current());
  return nodes.Call(Function::kAdd, {x, scaled});
}

// −∞, which no caller's number can be.
absl::StatusOr<int> LowerKnockout(PartNodes& nodes) {
  constexpr absl::string_view kName = "out of sight";
  const int known = nodes.builder().FindShared(kName);
  if (known >= 0) return known;
  const float score = -std::numeric_limits<float>::infinity();
  const auto* bytes = reinterpret_cast<const std::byte*>(&score);
  ASSIGN_OR_RETURN(
      const int node,
      nodes.builder().AddKept(CopyOf(DType::kF32, {}, {bytes, sizeof(score)}),
                              nodes.Field("knockout")));
  nodes.builder().Share(kName, node);
  return node;
}

}  // namespace

absl::StatusOr<int> LowerEdit(const PlanParts& parts, EditSources& sources,
                              const v1::Intervention& intervention,
                              const EditedPart& part) {
  RETURN_IF_ERROR(CheckPlace(part, intervention.change_case()));
  PartNodes nodes(parts, sources, part);
  switch (intervention.change_case()) {
    case Change::kSet:
      return sources.AddValue(intervention.set().value(), part,
                              nodes.Field("set.value"));
    case Change::kAdd:
      return LowerAdd(nodes, intervention.add());
    case Change::kScale:
      return LowerScale(nodes, intervention.scale());
    case Change::kProjectOut:
      return LowerProjectOut(nodes, intervention.project_out());
    case Change::kClampProjection:
      return LowerClampProjection(nodes, intervention.clamp_projection());
    case Change::kSwap:
      return LowerSwap(nodes, intervention.swap());
    case Change::kClamp:
      return LowerClamp(nodes, intervention.clamp());
    case Change::kNoise:
      return LowerNoise(nodes, intervention.noise());
    case Change::kKnockout:
      return LowerKnockout(nodes);
    case Change::kSubspace:
      return LowerSubspace(nodes, intervention.subspace());
    case Change::kDictionary:
      return LowerDictionary(nodes, intervention.dictionary());
    default:
      return InvalidField(
          {.field = part.field,
           .problem = "changes nothing",
           .valid = "one of set, add, scale, project_out, clamp_projection, "
                    "clamp, noise, knockout, skip, subspace, dictionary, "
                    "swap"});
  }
}

}  // namespace phitap
