// What comes before what in a forward.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_ORDER_FORWARD_ORDER_H_
#define PHITAP_SERVER_PLAN_ORDER_FORWARD_ORDER_H_

#include <cstdint>

#include "server/plan/program.h"
#include "server/plan/trace_plan.h"
#include "server/spec/hook_point.h"
#include "server/spec/model_spec.h"

namespace phitap {

// Place of a hook point in a forward; later ones are larger.
int64_t ForwardRank(HookPoint point, const ModelSpec& spec);

// A moment of a forward; later ones are larger. What is read BEFORE the writes
// at a hook point comes before the writes' moment, what is read AFTER them has
// that very moment: rows of one wave are taken one after another there.
using Moment = int64_t;

// Before all others; between the prompt's pass and the next; after all others.
inline constexpr Moment kBeforeAll = -1;
inline constexpr Moment kAfterPrompt = INT64_MAX - 1;
inline constexpr Moment kAfterAll = INT64_MAX;

// From when on a read has its value: of scores and probabilities, which come in
// blocks, once the layer has them all.
Moment ReadyMoment(const RunRead& read, const ModelSpec& spec);

// When a write must have its values: of scores and probabilities before the
// layer's first block; after the prompt's pass where it leaves the prompt alone
// and no latch is below it.
Moment NeedMoment(const TracePlan& plan, const PlannedWrite& write,
                  const ModelSpec& spec);

// Takes the reads and captures of a plan, once its writes are known, to where
// the forward shows them: the input of a layer at the previous layer's output,
// after the writes there, which is the same value; but at its own place where
// the run edits it and the read is after the edits.
void PlaceReads(TracePlan& plan);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_ORDER_FORWARD_ORDER_H_
