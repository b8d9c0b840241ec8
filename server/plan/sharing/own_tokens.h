// What runs probably cost beside each other.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_SHARING_OWN_TOKENS_H_
#define PHITAP_SERVER_PLAN_SHARING_OWN_TOKENS_H_

#include <vector>

#include "server/plan/trace_plan.h"

namespace phitap {

// The runs that may share, in sets of the same tokens, each in the order of the
// request.
std::vector<std::vector<int>> AlikeRuns(const TracePlan& plan);

// Fills in PlannedRun::own_token_count, once PlannedRun::sharing is known: the
// positions from the first on at which a run has other tokens than a run that
// it resembles, or is edited otherwise. An estimate: it compares a run with few
// others, so that it takes time near linear in the request's tokens and writes.
void CountOwnTokens(TracePlan& plan);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_SHARING_OWN_TOKENS_H_
