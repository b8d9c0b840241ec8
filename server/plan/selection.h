// Which part of a value a capture reads, in plain indices.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_SELECTION_H_
#define PHITAP_SERVER_PLAN_SELECTION_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "phitap/v1/selection.pb.h"
#include "server/plan/trace_plan.h"
#include "server/spec/hook_point.h"
#include "server/spec/model_spec.h"

namespace phitap {

// The columns that `features` selects from: the last dimension, unless it is
// one of positions, queries or keys, which have fields of their own.
bool HasFeatures(const HookEntry& entry);

// INVALID_ARGUMENT for fields that values of `entry` have no dimension for, for
// fields that exclude each other and for token ids past the vocabulary: what
// is wrong in every run.
absl::Status CheckSelection(const v1::Selection& selection,
                            const HookEntry& entry, const ModelSpec& spec,
                            absl::string_view field);

// The indices that a checked selection keeps in one run. A dimension that is
// kept whole and in order is left unset. INVALID_ARGUMENT names the field and
// the run.
absl::StatusOr<ResolvedSelection> ResolveSelection(
    const v1::Selection& selection, const HookEntry& entry,
    const ModelSpec& spec, const PlannedRun& run, absl::string_view field);

// Indices kept along dimension number `axis` of `entry`; null where all are.
const std::vector<int64_t>* KeptIndices(const ResolvedSelection& selection,
                                        const HookEntry& entry, size_t axis);

// How many indices the selection holds in memory.
int64_t IndexCount(const ResolvedSelection& selection);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_SELECTION_H_
