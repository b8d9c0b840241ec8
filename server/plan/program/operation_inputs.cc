#include "server/plan/program/operation_inputs.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"

namespace phitap {
namespace {

std::string ShapesText(const std::vector<Shape>& shapes) {
  return absl::StrJoin(shapes, " and ", [](std::string* out, const Shape& s) {
    absl::StrAppend(out, ShapeText(s));
  });
}

}  // namespace

absl::Status OperationInputs::Invalid(std::string problem,
                                      std::string valid) const {
  return InvalidField({.field = std::string(field_),
                       .problem = std::move(problem),
                       .valid = std::move(valid)});
}

absl::Status OperationInputs::Misfit(absl::string_view what,
                                     std::string valid) const {
  return Invalid(absl::StrCat(what, " of ", ShapesText(inputs_)),
                 std::move(valid));
}

absl::Status OperationInputs::WrongCount(absl::string_view what,
                                         absl::string_view valid) const {
  return Invalid(absl::StrCat(what, " with ", inputs_.size(), " inputs"),
                 std::string(valid));
}

absl::Status OperationInputs::CheckCount(size_t count,
                                         absl::string_view what) const {
  if (inputs_.size() == count) return absl::OkStatus();
  return WrongCount(what, absl::StrCat(count));
}

absl::Status OperationInputs::UnlikeParts(int64_t dimension) const {
  return Misfit("concatenate",
                absl::StrCat("shapes equal but for dimension ", dimension));
}

absl::StatusOr<Shape> OperationInputs::Broadcast(const Shape& a, const Shape& b,
                                                 absl::string_view what) const {
  std::optional<Shape> both = BroadcastShape(a, b);
  if (both.has_value()) return *std::move(both);
  return Misfit(what, "shapes that broadcast as in NumPy");
}

absl::StatusOr<int64_t> OperationInputs::ResolveDimension(
    int64_t& dimension, absl::string_view what) const {
  const int64_t rank = static_cast<int64_t>(inputs_[0].size());
  if (dimension < -rank || dimension >= rank) {
    return Invalid(absl::StrCat(what, " along dimension ", dimension, " of ",
                                ShapeText(inputs_[0])),
                   rank == 0 ? "a value with dimensions"
                             : absl::StrCat(-rank, " to ", rank - 1));
  }
  if (dimension < 0) dimension += rank;
  return inputs_[0][dimension];
}

absl::Status OperationInputs::ResolveDimensions(
    std::vector<int64_t>& dimensions, absl::string_view what) const {
  std::vector<bool> seen(inputs_[0].size());
  for (int64_t& dimension : dimensions) {
    RETURN_IF_ERROR(ResolveDimension(dimension, what).status());
    if (seen[dimension]) {
      return Invalid(
          absl::StrCat(what, " names dimension ", dimension, " twice"),
          "each dimension at most once");
    }
    seen[dimension] = true;
  }
  return absl::OkStatus();
}

absl::Status OperationInputs::CheckIndices(const std::vector<int64_t>& indices,
                                           int64_t size,
                                           absl::string_view what) const {
  if (indices.empty()) {
    return Invalid(absl::StrCat(what, " selects nothing"),
                   "at least one index");
  }
  for (int64_t index : indices) {
    if (index >= 0 && index < size) continue;
    return Invalid(
        absl::StrCat(what, " at index ", index, " of ", ShapeText(inputs_[0])),
        absl::StrCat("0 to ", size - 1));
  }
  return absl::OkStatus();
}

absl::Status OperationInputs::CheckK(int64_t k, absl::string_view what) const {
  RETURN_IF_ERROR(CheckCount(1, what));
  if (inputs_[0].empty()) return Misfit(what, "a last dimension");
  if (k >= 1 && k <= inputs_[0].back()) return absl::OkStatus();
  return Invalid(
      absl::StrCat(what, " with k = ", k, " of ", ShapeText(inputs_[0])),
      absl::StrCat("1 to ", inputs_[0].back()));
}

Shape OperationInputs::WithSize(int64_t dimension, int64_t size) const {
  Shape shape = inputs_[0];
  shape[dimension] = size;
  return shape;
}

}  // namespace phitap
