// The bounds of a clamp.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_EDITS_EDIT_BOUNDS_H_
#define PHITAP_SERVER_PLAN_EDITS_EDIT_BOUNDS_H_

#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"
#include "server/plan/program.h"

namespace phitap {

// Those of an edit with optional `low` and `high`. INVALID_ARGUMENT against a
// field under `field` where there is none, one is no number of float32 or the
// lower is above the higher.
template <typename Edit>
absl::StatusOr<ClampOp> BoundsOf(const Edit& edit, const std::string& field) {
  ClampOp bounds;
  if (edit.has_low()) bounds.low = edit.low();
  if (edit.has_high()) bounds.high = edit.high();
  if (!bounds.low && !bounds.high) {
    return InvalidField({.field = field,
                         .problem = "has no bound",
                         .valid = "low, high or both"});
  }
  for (const auto& [name, bound] :
       {std::pair("low", bounds.low), std::pair("high", bounds.high)}) {
    if (!bound || std::isfinite(static_cast<float>(*bound))) continue;
    return InvalidField(
        {.field = absl::StrCat(field, ".", name),
         .problem = absl::StrCat(*bound, " is no float32 number"),
         .valid = "a finite number; unset for no bound"});
  }
  if (bounds.low && bounds.high && *bounds.low > *bounds.high) {
    return InvalidField(
        {.field = field + ".low",
         .problem = absl::StrCat(*bounds.low, " is above high, ", *bounds.high),
         .valid = "at most high"});
  }
  return bounds;
}

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_EDITS_EDIT_BOUNDS_H_
