// Values of runs that edits, nodes and metrics name.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_PROGRAM_RUN_VALUE_H_
#define PHITAP_SERVER_PLAN_PROGRAM_RUN_VALUE_H_

#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "phitap/v1/intervention.pb.h"
#include "server/plan/program.h"
#include "server/plan/program/plan_parts.h"

namespace phitap {

// Where a value of a run is taken from if the message leaves it open.
struct RunValueDefaults {
  // −1: the run must be named.
  int run = -1;
  // Unset: the hook point must be named.
  std::optional<HookPoint> point;
  // Unset: all of it. Used as it is for the run and hook point that are named;
  // an index past the end of theirs is an error.
  std::optional<ResolvedSelection> selection;
};

// INVALID_ARGUMENT against a field under `field`: no run or hook point of this
// name, several hook points, a part that the value does not have, steps after
// the prompt.
absl::StatusOr<RunRead> ResolveRunValue(const PlanParts& parts,
                                        const v1::RunValue& value,
                                        const RunValueDefaults& defaults,
                                        absl::string_view field);

// The one hook point that `text` names. INVALID_ARGUMENT against `field`.
absl::StatusOr<HookPoint> ParseOneHookPoint(absl::string_view text,
                                            const ModelSpec& spec,
                                            absl::string_view field);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_PROGRAM_RUN_VALUE_H_
