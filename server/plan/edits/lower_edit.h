// What an intervention sets its part to, as nodes over CurrentValue.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_EDITS_LOWER_EDIT_H_
#define PHITAP_SERVER_PLAN_EDITS_LOWER_EDIT_H_

#include "absl/status/statusor.h"
#include "phitap/v1/intervention.pb.h"
#include "server/plan/edits/edit_sources.h"
#include "server/plan/edits/edited_part.h"
#include "server/plan/program/plan_parts.h"

namespace phitap {

// The new value of the part, as the edit's message defines it; not of a skip.
// INVALID_ARGUMENT against a field under the part's.
absl::StatusOr<int> LowerEdit(const PlanParts& parts, EditSources& sources,
                              const v1::Intervention& intervention,
                              const EditedPart& part);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_EDITS_LOWER_EDIT_H_
