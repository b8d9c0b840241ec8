// Where an intervention applies, as far as it is the same for every run.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_EDITS_INTERVENTION_PLACE_H_
#define PHITAP_SERVER_PLAN_EDITS_INTERVENTION_PLACE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "phitap/v1/intervention.pb.h"
#include "server/plan/captures/selection.h"
#include "server/spec/hook_point.h"
#include "server/spec/model_spec.h"

namespace phitap {

struct InterventionPlace {
  // All of one hook, writable.
  std::vector<HookPoint> points;
  CheckedSelection selection;
};

// INVALID_ARGUMENT against a field under `field`, the intervention's path.
// `intervention` and `spec` must outlive the result.
absl::StatusOr<InterventionPlace> ResolvePlace(
    const v1::Intervention& intervention, const ModelSpec& spec,
    const std::string& field);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_EDITS_INTERVENTION_PLACE_H_
