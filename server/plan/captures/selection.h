// Which part of a value is read or edited, in plain indices.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_CAPTURES_SELECTION_H_
#define PHITAP_SERVER_PLAN_CAPTURES_SELECTION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "phitap/v1/selection.pb.h"
#include "server/plan/trace_plan.h"
#include "server/spec/hook_point.h"
#include "server/spec/model_spec.h"

namespace phitap {

// A part of a run's value, and the passes that it is taken from.
struct SelectedPart {
  // Of the prompt's pass.
  ResolvedSelection selection;
  StepSelection steps;
};

// A selection, checked as far as it is the same for every run.
// Thread-compatible.
class CheckedSelection {
 public:
  // INVALID_ARGUMENT against a field under `field` for fields that values of
  // `entry` have no dimension for, for fields that exclude each other and for
  // token ids past the vocabulary. `selection`, `entry` and `spec` must outlive
  // the result.
  static absl::StatusOr<CheckedSelection> Create(const v1::Selection& selection,
                                                 const HookEntry& entry,
                                                 const ModelSpec& spec,
                                                 absl::string_view field);

  // The indices that it keeps in the prompt's pass of one run; `steps` must be
  // unset. A dimension that is kept whole and in order is left unset.
  // INVALID_ARGUMENT names the field and the run.
  absl::StatusOr<ResolvedSelection> ResolveFor(const PlannedRun& run) const;
  // The same with the passes that it takes part in, as `steps` says or leaves
  // open. Queries of scores and probabilities stand for positions.
  absl::StatusOr<SelectedPart> ResolvePart(const PlannedRun& run) const;

 private:
  CheckedSelection(const v1::Selection& selection, const HookEntry& entry,
                   const ModelSpec& spec, absl::string_view field);
  bool HasTokenOf(const PlannedRun& run) const;
  // Whether it chooses among the prompt's positions by their number.
  bool NumbersPositions() const;
  absl::StatusOr<std::vector<int64_t>> PositionsOfTokens(
      const PlannedRun& run) const;
  absl::StatusOr<StepSelection> ResolveSteps(const PlannedRun& run) const;
  absl::StatusOr<StepSelection> GivenSteps(const PlannedRun& run) const;
  absl::StatusOr<ResolvedSelection> ResolveIn(const PlannedRun& run,
                                              bool in_prompt) const;

  const v1::Selection* selection_;
  const HookEntry* entry_;
  const ModelSpec* spec_;
  std::string field_;
  absl::flat_hash_set<int32_t> token_ids_;
};

// Indices kept along dimension number `axis` of `entry`; null where all are.
const std::vector<int64_t>* KeptIndices(const ResolvedSelection& selection,
                                        const HookEntry& entry, size_t axis);

// How many indices the selection holds in memory.
int64_t IndexCount(const ResolvedSelection& selection);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_CAPTURES_SELECTION_H_
