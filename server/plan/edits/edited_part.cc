#include "server/plan/edits/edited_part.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"

namespace phitap {
namespace {

std::optional<size_t> AxisOf(Hook hook, Dimension dimension) {
  const auto& dimensions = EntryOf(hook).dimensions;
  const auto found = std::find(dimensions.begin(), dimensions.end(), dimension);
  if (found == dimensions.end()) return std::nullopt;
  return found - dimensions.begin();
}

// Size of a value along a dimension of the part that it broadcasts to.
int64_t SizeAlong(const Shape& value, const Shape& part, size_t axis) {
  const size_t missing = part.size() - value.size();
  return axis < missing ? 1 : value[axis - missing];
}

absl::Status NotInEveryPass(const EditedPart& part, const Shape& value,
                            absl::string_view field) {
  return InvalidField(
      {.field = std::string(field),
       .problem = absl::StrCat("a value of ", ShapeText(value),
                               " has no one position for the generated tokens "
                               "that ",
                               part.field, " edits too"),
       .valid = "a value that broadcasts over positions and all keys, or "
                "selection.steps of 0 alone"});
}

}  // namespace

bool IsPattern(Hook hook) {
  return hook == Hook::kAttentionScores ||
         hook == Hook::kAttentionProbabilities;
}

std::optional<size_t> PositionAxis(Hook hook) {
  const std::optional<size_t> seq = AxisOf(hook, Dimension::kSeq);
  return seq.has_value() ? seq : AxisOf(hook, Dimension::kQuery);
}

absl::Status CheckFits(const EditedPart& part, const Shape& value,
                       absl::string_view field) {
  if (!BroadcastsTo(value, part.shape)) {
    return InvalidField(
        {.field = std::string(field),
         .problem = absl::StrCat("a value of ", ShapeText(value),
                                 " does not broadcast to the part of ",
                                 FullName(part.point), " that is edited"),
         .valid = absl::StrCat("what broadcasts to ", ShapeText(part.shape))});
  }
  if (!part.steps.has_generated()) return absl::OkStatus();
  const Hook hook = part.point.hook;
  const std::optional<size_t> position = PositionAxis(hook);
  if (position && SizeAlong(value, part.shape, *position) != 1) {
    return NotInEveryPass(part, value, field);
  }
  // The keys of a generated token are one more each time.
  const std::optional<size_t> key = AxisOf(hook, Dimension::kKey);
  if (key && !part.selection.keys.has_value() &&
      SizeAlong(value, part.shape, *key) != 1) {
    return NotInEveryPass(part, value, field);
  }
  return absl::OkStatus();
}

}  // namespace phitap
