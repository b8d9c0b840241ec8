// Nodes over the part that is being edited.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_EDITS_PART_NODES_H_
#define PHITAP_SERVER_PLAN_EDITS_PART_NODES_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/plan/edits/edit_sources.h"
#include "server/plan/edits/edited_part.h"
#include "server/plan/program/plan_parts.h"
#include "server/plan/program/program_builder.h"

namespace phitap {

// What the lowerings of one write share; all that it is given outlives it.
class PartNodes {
 public:
  PartNodes(const PlanParts& parts, EditSources& sources,
            const EditedPart& part)
      : parts_(parts), sources_(sources), part_(part) {}

  const PlanParts& parts() const { return parts_; }
  ProgramBuilder& builder() const { return parts_.builder; }
  EditSources& sources() const { return sources_; }
  const EditedPart& part() const { return part_; }
  // The path of a field of the intervention.
  std::string Field(absl::string_view name) const {
    return absl::StrCat(part_.field, ".", name);
  }

  // x, one node however often it is asked for.
  absl::StatusOr<int> Current() {
    if (current_ >= 0) return current_;
    absl::StatusOr<int> node = builder().AddCurrent(part_.shape, part_.field);
    if (node.ok()) current_ = *node;
    return node;
  }
  absl::StatusOr<int> Call(Function function, std::vector<int> inputs) {
    return builder().Add(FunctionOp{function}, std::move(inputs), part_.field);
  }

 private:
  const PlanParts& parts_;
  EditSources& sources_;
  const EditedPart& part_;
  int current_ = -1;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_EDITS_PART_NODES_H_
