// What a plan says about how everything of it is computed.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_TRACE_PLAN_RULES_H_
#define PHITAP_SERVER_TRACE_PLAN_RULES_H_

#include "server/model/forward.h"
#include "server/model/phi3.h"
#include "server/plan/trace_plan.h"
#include "server/trace/evaluate.h"

namespace phitap {

inline ForwardOptions OptionsOf(const TracePlan& plan) {
  return {
      .numerics = plan.numerics == Numerics::kCausal
                      ? ForwardNumerics::kCausal
                      : ForwardNumerics::kTransformers,
      .attention = plan.attention == Attention::kSdpa
                       ? ForwardAttention::kSdpa
                       : ForwardAttention::kEager,
  };
}

// Model and plan outlive them.
inline EvaluationRules RulesOf(const Phi3& model, const TracePlan& plan,
                               const ForwardOptions& options) {
  return {.model = model,
          .numerics = options.numerics,
          .graph = options.graph,
          .nodes = plan.nodes};
}

}  // namespace phitap

#endif  // PHITAP_SERVER_TRACE_PLAN_RULES_H_
