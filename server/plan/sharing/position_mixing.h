// Whether positions of a part that is being edited meet.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_SHARING_POSITION_MIXING_H_
#define PHITAP_SERVER_PLAN_SHARING_POSITION_MIXING_H_

#include "server/plan/trace_plan.h"

namespace phitap {

// See WriteExtent::mixes_positions. False only where every operation over the
// part is one that keeps each position for itself, its place among the
// dimensions included: element by element, or (but for scores and
// probabilities, whose last dimension grows with the prompt) along the last
// dimension.
bool MixesPositions(const TracePlan& plan, const PlannedWrite& write);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_SHARING_POSITION_MIXING_H_
