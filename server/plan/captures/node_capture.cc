#include "server/plan/captures/node_capture.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/plan/program/shapes.h"
#include "server/plan/saturating.h"
#include "server/plan/wire_type.h"

namespace phitap {
namespace {

absl::Status CheckFields(const v1::Capture& capture, const std::string& field) {
  const std::pair<absl::string_view, bool> fields[] = {
      {"hook_points", !capture.hook_points().empty()},
      {"runs", !capture.runs().empty()},
      {"selection", capture.has_selection()},
      {"read_time", capture.read_time() != v1::READ_TIME_UNSPECIFIED},
      {"reduction", capture.has_reduction()}};
  for (const auto& [name, is_set] : fields) {
    if (!is_set) continue;
    return InvalidField({.field = absl::StrCat(field, ".", name),
                         .problem = "is set beside node",
                         .valid = "unset: it is for hook points"});
  }
  return absl::OkStatus();
}

absl::StatusOr<DType> WireTypeOf(const v1::Capture& capture,
                                 const std::string& field) {
  if (capture.dtype() == v1::DATA_TYPE_UNSPECIFIED) return DType::kF32;
  const std::optional<DType> dtype = FromWire(capture.dtype());
  if (dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16) {
    return *dtype;
  }
  return InvalidField(
      {.field = field + ".dtype",
       .problem = absl::StrCat(v1::DataType_Name(capture.dtype()),
                               " is no floating-point type"),
       .valid = "DATA_TYPE_F32, DATA_TYPE_F16, DATA_TYPE_BF16"});
}

}  // namespace

absl::Status AddNodeCapture(const PlanParts& parts, const NodeIndex& nodes,
                            int index) {
  const v1::Capture& capture = parts.request.captures(index);
  const std::string field = absl::StrCat("captures[", index, "]");
  RETURN_IF_ERROR(CheckFields(capture, field));
  ASSIGN_OR_RETURN(const int node, nodes.Find(capture.node(), field + ".node"));
  PlannedTensor tensor = {
      .label = capture.label().empty() ? capture.node() : capture.label(),
      .run = -1,
      .has_point = false,
      .shape = parts.builder.ShapeOf(node),
      .kept_as = capture.tensor_name()};
  ASSIGN_OR_RETURN(tensor.dtype, WireTypeOf(capture, field));
  tensor.size_bytes = SaturatingMultiply(SaturatingElements(tensor.shape),
                                         SizeInBytes(tensor.dtype));
  for (size_t axis = 0; axis < tensor.shape.size(); ++axis) {
    tensor.dimension_names.push_back(absl::StrCat("dim_", axis));
  }
  TracePlan& plan = parts.plan;
  plan.outputs.push_back(
      {.node = node, .tensor = static_cast<int>(plan.tensors.size())});
  plan.size_bytes = SaturatingAdd(plan.size_bytes, tensor.size_bytes);
  plan.tensors.push_back(std::move(tensor));
  return absl::OkStatus();
}

}  // namespace phitap
