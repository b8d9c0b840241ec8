// The part of a run's value that an intervention edits.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_EDITS_EDITED_PART_H_
#define PHITAP_SERVER_PLAN_EDITS_EDITED_PART_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/plan/program.h"
#include "server/plan/program/shapes.h"
#include "server/spec/hook_point.h"

namespace phitap {

struct EditedPart {
  int run = 0;
  HookPoint point;
  ResolvedSelection selection;
  StepSelection steps;
  // In the prompt's pass.
  Shape shape;
  // The intervention's path.
  std::string field;
  // What a sweep's scales axis says.
  std::optional<double> scale;
};

// Scores and probabilities, which attention makes block by block.
bool IsPattern(Hook hook);

// The dimension of token positions (queries, at scores and probabilities);
// nothing where the value has none.
std::optional<size_t> PositionAxis(Hook hook);

// INVALID_ARGUMENT against `field` unless a value of this shape broadcasts to
// the part, in the passes of generated tokens as well.
absl::Status CheckFits(const EditedPart& part, const Shape& value,
                       absl::string_view field);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_EDITS_EDITED_PART_H_
