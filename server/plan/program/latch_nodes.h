// Latches: what a generating run remembers from one pass to the next.
//
// A latch looks at the one position of every pass of its run: the last of the
// prompt, then each generated token. So below it there are only reads of one
// run that generates, each of the last position alone (or of next_token_probs,
// which has no other), and what is computed from them and from constants.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_PROGRAM_LATCH_NODES_H_
#define PHITAP_SERVER_PLAN_PROGRAM_LATCH_NODES_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/plan/program/plan_parts.h"

namespace phitap {

// A latch of `input`, which is computed anew in every pass: the nodes below it
// are copied, so that what else they feed still has the prompt's values.
// INVALID_ARGUMENT against `field` where something below it is not as above, or
// where the run may pass a longrope checkpoint's original context with
// LONGROPE_CACHE_RECOMPUTE: the new passes over old tokens would not know what
// held there.
absl::StatusOr<int> AddLatch(const PlanParts& parts, int input,
                             absl::string_view field);

// Whether only writes of a latch's own run depend on it. INVALID_ARGUMENT names
// the field of what else does.
absl::Status CheckLatches(const TracePlan& plan);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_PROGRAM_LATCH_NODES_H_
