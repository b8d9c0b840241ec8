#include "server/plan/edits/feature_edits.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/spec/quote.h"

namespace phitap {

FeatureEdits::FeatureEdits(ProgramBuilder& builder,
                           const v1::DictionaryEdit& edit, std::string field,
                           ValuesOfRun values_of_run)
    : builder_(builder),
      edit_(edit),
      field_(std::move(field)),
      values_of_run_(std::move(values_of_run)) {
  for (const v1::FeatureEdit& one : edit.edits()) {
    if (std::find(features_.begin(), features_.end(), one.feature()) ==
        features_.end()) {
      features_.push_back(one.feature());
    }
  }
}

std::string FeatureEdits::Field(int index) const {
  return absl::StrCat(field_, ".edits[", index, "]");
}

absl::Status FeatureEdits::Check(int64_t feature_count) const {
  for (int i = 0; i < edit_.edits_size(); ++i) {
    const v1::FeatureEdit& one = edit_.edits(i);
    const bool exists = one.has_feature() && one.feature() >= 0 &&
                        one.feature() < feature_count;
    if (exists) continue;
    return InvalidField(
        {.field = Field(i) + ".feature",
         .problem = one.has_feature() ? absl::StrCat("feature ", one.feature(),
                                                     " is none of them")
                                      : "is not set",
         .valid = absl::StrCat("0 to ", feature_count - 1)});
  }
  return absl::OkStatus();
}

// [..., 1]
absl::StatusOr<int> FeatureEdits::Column(int values, size_t place) const {
  if (features_.size() == 1) return values;
  return builder_.Add(
      GatherOp{.dimension = -1,
               .indices = std::vector<int64_t>{static_cast<int64_t>(place)}},
      {values}, field_);
}

absl::StatusOr<int> FeatureEdits::Apply(int values) const {
  std::vector<int> columns;
  for (size_t place = 0; place < features_.size(); ++place) {
    ASSIGN_OR_RETURN(int column, Column(values, place));
    for (int i = 0; i < edit_.edits_size(); ++i) {
      if (edit_.edits(i).feature() != features_[place]) continue;
      ASSIGN_OR_RETURN(column, Edited(column, place, i));
    }
    columns.push_back(column);
  }
  if (columns.size() == 1) return columns.front();
  return builder_.Add(ConcatenateOp{.dimension = -1}, std::move(columns),
                      field_);
}

absl::StatusOr<int> FeatureEdits::Edited(int column, size_t place,
                                         int index) const {
  const v1::FeatureEdit& edit = edit_.edits(index);
  const std::string field = Field(index);
  switch (edit.edit_case()) {
    case v1::FeatureEdit::kSet:
      return Set(column, edit.set(), field + ".set");
    case v1::FeatureEdit::kScale:
      return WithNumber(Function::kMultiply, column, edit.scale(),
                        field + ".scale");
    case v1::FeatureEdit::kAdd:
      return WithNumber(Function::kAdd, column, edit.add(), field + ".add");
    case v1::FeatureEdit::kFromRun:
      return OfRun(column, edit.from_run(), place, field + ".from_run");
    default:
      return InvalidField({.field = field,
                           .problem = "changes nothing",
                           .valid = "one of set, scale, add, from_run"});
  }
}

// Keeps the column's shape, which a number does not have.
absl::StatusOr<int> FeatureEdits::Set(int column, double value,
                                      std::string field) const {
  if (!std::isfinite(static_cast<float>(value))) {
    return InvalidField(
        {.field = std::move(field),
         .problem = absl::StrCat(value, " is no float32 number"),
         .valid = "a finite number"});
  }
  return builder_.Add(ClampOp{.low = value, .high = value}, {column}, field);
}

absl::StatusOr<int> FeatureEdits::WithNumber(Function function, int column,
                                             double value,
                                             std::string field) const {
  ASSIGN_OR_RETURN(const int number, builder_.AddNumber(value, field));
  return builder_.Add(FunctionOp{function}, {column, number}, field);
}

absl::StatusOr<int> FeatureEdits::OfRun(int column, const std::string& label,
                                        size_t place, std::string field) const {
  ASSIGN_OR_RETURN(const int values, values_of_run_(label, field));
  ASSIGN_OR_RETURN(const int other, Column(values, place));
  const Shape& shape = builder_.ShapeOf(column);
  if (builder_.ShapeOf(other) == shape) return other;
  return InvalidField(
      {.field = std::move(field),
       .problem =
           absl::StrCat("the feature is ", ShapeText(builder_.ShapeOf(other)),
                        " in run ", Quoted(label)),
       .valid = absl::StrCat("a run in which it is ", ShapeText(shape))});
}

}  // namespace phitap
