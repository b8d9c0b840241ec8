// How far a run's forward has to go for what is read from it.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_ORDER_REACH_H_
#define PHITAP_SERVER_PLAN_ORDER_REACH_H_

#include <cstdint>
#include <vector>

#include "server/plan/trace_plan.h"
#include "server/spec/hook_point.h"
#include "server/spec/model_spec.h"

namespace phitap {

// The part of the forward that makes a value.
enum class Stage {
  // Before the first layer.
  kInputs,
  // In a layer, for all positions: up to the scores and probabilities.
  kKeysValues,
  // In a layer, after them, position by position.
  kTail,
  // After the last layer.
  kNorm,
  kHead,
};
Stage StageOf(Hook hook);

// Where the value of `point` is read: see PlannedCapture::read_at.
HookPoint ReadPoint(HookPoint point);

// Layers that must be computed for the value that is read there.
int LayersFor(HookPoint read_at, const ModelSpec& spec);

// Fills in the reach of every run of `plan`: what its captures, the nodes'
// reads and gradients (once PlaceReads has placed them) and the choice of the
// next token need. Writes ask for nothing themselves. In numerics kTransformers
// whatever is needed of tail, norm and head is needed for all positions: their
// library calls are made with all of them.
void PlanReach(const ModelSpec& spec, TracePlan& plan);

// Fills in token_layers and token_layers_full_depth: every run's passes, as
// many as there can be, and those of gradients.
void CountTokenLayers(const ModelSpec& spec, TracePlan& plan);

// Layers × tokens: a token counts in each layer that it goes through to the
// end; one that stops after its keys and values does not.
int64_t TokenLayers(const Reach& reach, int64_t token_count);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_ORDER_REACH_H_
