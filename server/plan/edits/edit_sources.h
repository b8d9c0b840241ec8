// Right-hand sides of edits, as nodes.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_EDITS_EDIT_SOURCES_H_
#define PHITAP_SERVER_PLAN_EDITS_EDIT_SOURCES_H_

#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "phitap/v1/intervention.pb.h"
#include "server/plan/edits/edited_part.h"
#include "server/plan/program/plan_parts.h"
#include "server/plan/program/plan_program.h"

namespace phitap {

// Makes a source that does not depend on what is edited once, however many
// layers, runs and cells of sweeps use it. No node that it makes depends on
// CurrentValue. Messages outlive it.
class EditSources {
 public:
  EditSources(const PlanParts& parts, const NodeIndex& nodes)
      : parts_(parts), nodes_(nodes) {}

  // A value that broadcasts to the part. INVALID_ARGUMENT against a field under
  // `field`.
  absl::StatusOr<int> AddValue(const v1::EditSource& source,
                               const EditedPart& part, absl::string_view field);
  // A value of any shape.
  absl::StatusOr<int> Add(const v1::EditSource& source, const EditedPart& part,
                          absl::string_view field);
  // The unit vector along a vector of `width` elements: [width].
  // INVALID_ARGUMENT for another shape and for a vector of length 0 that is
  // known now.
  absl::StatusOr<int> AddUnitVector(const v1::EditSource& source, int64_t width,
                                    const EditedPart& part,
                                    absl::string_view field);
  // value · factor; the value itself where the factor is 1.
  absl::StatusOr<int> AddScaled(int value, double factor,
                                absl::string_view field);
  // A condition of a write at the part: one number or one a selected position.
  absl::StatusOr<int> AddCondition(absl::string_view node,
                                   const EditedPart& part,
                                   absl::string_view field);

 private:
  absl::StatusOr<int> AddTensor(const v1::Tensor& tensor,
                                absl::string_view field);
  absl::StatusOr<int> AddRun(const v1::RunValue& value, const EditedPart& part,
                             absl::string_view field);
  absl::StatusOr<int> AddMean(const v1::MeanOfRuns& mean,
                              const EditedPart& part, absl::string_view field);

  const PlanParts& parts_;
  const NodeIndex& nodes_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_EDITS_EDIT_SOURCES_H_
