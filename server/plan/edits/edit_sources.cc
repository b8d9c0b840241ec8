#include "server/plan/edits/edit_sources.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/plan/edits/mean_of_runs.h"
#include "server/plan/program/inline_tensor.h"
#include "server/plan/program/named_sources.h"
#include "server/plan/program/run_value.h"

namespace phitap {
namespace {

// Whether a constant has no direction: all its bytes are 0, but for signs.
bool IsZero(const HostTensor& value) {
  const int64_t size = SizeInBytes(value.dtype);
  for (size_t i = 0; i < value.bytes.size(); ++i) {
    // Little-endian: an element's sign is the highest bit of its last byte.
    const bool has_sign = static_cast<int64_t>(i) % size == size - 1;
    const std::byte mask{static_cast<unsigned char>(has_sign ? 0x7f : 0xff)};
    if ((value.bytes[i] & mask) != std::byte{0}) return false;
  }
  return true;
}

// Whether a shape is a vector of `width` elements, leading ones aside.
bool IsVector(const Shape& shape, int64_t width) {
  return !shape.empty() && shape.back() == width &&
         std::all_of(shape.begin(), shape.end() - 1,
                     [](int64_t size) { return size == 1; });
}

}  // namespace

absl::StatusOr<int> EditSources::AddTensor(const v1::Tensor& tensor,
                                           absl::string_view field) {
  const std::string key = absl::StrCat("inline ", field);
  const int known = parts_.builder.FindShared(key);
  if (known >= 0) return known;
  ASSIGN_OR_RETURN(HostTensor value, InlineTensor(tensor, field));
  ASSIGN_OR_RETURN(const int node,
                   parts_.builder.AddConstant(std::move(value), field));
  parts_.builder.Share(key, node);
  return node;
}

absl::StatusOr<int> EditSources::AddRun(const v1::RunValue& value,
                                        const EditedPart& part,
                                        absl::string_view field) {
  ASSIGN_OR_RETURN(RunRead read, ResolveRunValue(parts_, value,
                                                 {.run = part.run,
                                                  .point = part.point,
                                                  .selection = part.selection},
                                                 field));
  return parts_.builder.AddRead(std::move(read), field);
}

absl::StatusOr<int> EditSources::AddMean(const v1::MeanOfRuns& mean,
                                         const EditedPart& part,
                                         absl::string_view field) {
  return AddMeanOfRuns(
      parts_, mean, {.point = part.point, .selection = part.selection}, field);
}

absl::StatusOr<int> EditSources::Add(const v1::EditSource& source,
                                     const EditedPart& part,
                                     absl::string_view field) {
  const std::string path(field);
  switch (source.source_case()) {
    case v1::EditSource::kTensor:
      return AddTensor(source.tensor(), path + ".tensor");
    case v1::EditSource::kTensorName:
      return AddKeptTensor(parts_, source.tensor_name(), path + ".tensor_name");
    case v1::EditSource::kRun:
      return AddRun(source.run(), part, path + ".run");
    case v1::EditSource::kMeanOfRuns:
      return AddMean(source.mean_of_runs(), part, path + ".mean_of_runs");
    case v1::EditSource::kConstant:
      return AddNamedConstant(parts_, source.constant(), path + ".constant");
    case v1::EditSource::kNode:
      return nodes_.Find(source.node(), path + ".node");
    case v1::EditSource::kNumber:
      return parts_.builder.AddNumber(source.number(), path + ".number");
    default:
      return InvalidField(
          {.field = path,
           .problem = "says nothing",
           .valid = "one of tensor, tensor_name, run, mean_of_runs, constant, "
                    "node, number"});
  }
}

absl::StatusOr<int> EditSources::AddValue(const v1::EditSource& source,
                                          const EditedPart& part,
                                          absl::string_view field) {
  ASSIGN_OR_RETURN(const int node, Add(source, part, field));
  RETURN_IF_ERROR(CheckFits(part, parts_.builder.ShapeOf(node), field));
  return node;
}

absl::StatusOr<int> EditSources::AddUnitVector(const v1::EditSource& source,
                                               int64_t width,
                                               const EditedPart& part,
                                               absl::string_view field) {
  ASSIGN_OR_RETURN(int vector, Add(source, part, field));
  const std::string key = absl::StrCat("unit ", vector);
  const int known = parts_.builder.FindShared(key);
  const Shape shape = parts_.builder.ShapeOf(vector);
  if (!IsVector(shape, width)) {
    return InvalidField(
        {.field = std::string(field),
         .problem = absl::StrCat("a value of ", ShapeText(shape),
                                 " is no direction here"),
         .valid = absl::StrCat("a vector of ", width, " elements")});
  }
  if (known >= 0) return known;
  const auto* constant =
      std::get_if<ConstantValue>(&parts_.plan.nodes[vector].operation);
  if (constant != nullptr && IsZero(constant->value)) {
    return InvalidField({.field = std::string(field),
                         .problem = "a vector of length 0 has no direction",
                         .valid = "a vector of any other length"});
  }
  if (shape.size() > 1) {
    ASSIGN_OR_RETURN(vector, parts_.builder.AddReshape(vector, {width}, field));
  }
  ASSIGN_OR_RETURN(
      const int length,
      parts_.builder.Add(ReduceOp{.kind = ReduceOp::Kind::kNorm,
                                  .dimensions = {0},
                                  .reduced = ReduceOp::Dimensions::kKeep},
                         {vector}, field));
  ASSIGN_OR_RETURN(const int unit,
                   parts_.builder.Add(FunctionOp{Function::kDivide},
                                      {vector, length}, field));
  parts_.builder.Share(key, unit);
  return unit;
}

absl::StatusOr<int> EditSources::AddScaled(int value, double factor,
                                           absl::string_view field) {
  if (factor == 1) return value;
  ASSIGN_OR_RETURN(const int number, parts_.builder.AddNumber(factor, field));
  const std::string key = absl::StrCat("scaled ", value, " ", number);
  const int known = parts_.builder.FindShared(key);
  if (known >= 0) return known;
  ASSIGN_OR_RETURN(const int scaled,
                   parts_.builder.Add(FunctionOp{Function::kMultiply},
                                      {value, number}, field));
  parts_.builder.Share(key, scaled);
  return scaled;
}

absl::StatusOr<int> EditSources::AddCondition(absl::string_view node,
                                              const EditedPart& part,
                                              absl::string_view field) {
  ASSIGN_OR_RETURN(const int condition, nodes_.Find(node, field));
  const Shape& shape = parts_.builder.ShapeOf(condition);
  if (SaturatingElements(shape) == 1) return condition;
  const std::optional<size_t> axis = PositionAxis(part.point.hook);
  const bool by_position = axis.has_value() && !IsPattern(part.point.hook) &&
                           !part.steps.has_generated();
  std::string valid = "one number";
  if (by_position) {
    const int64_t count = part.shape[*axis];
    if (shape == Shape{count} || shape == Shape{count, 1}) return condition;
    absl::StrAppend(&valid, ", or one for each of the ", count,
                    " selected positions");
  }
  return InvalidField({.field = std::string(field),
                       .problem = absl::StrCat("a value of ", ShapeText(shape),
                                               " is no condition here"),
                       .valid = std::move(valid)});
}

}  // namespace phitap
