// Plans for tests of scheduling and streaming: no model stands behind them.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_SUPPORT_SMALL_PLANS_H_
#define PHITAP_TESTS_SUPPORT_SMALL_PLANS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/plan/trace_plan.h"

namespace phitap {

struct SmallPlan {
  std::string model = "tiny";
  // Tokens of each run; each run returns one float32 tensor [tokens].
  std::vector<int> tokens_of_runs = {3};
  Numerics numerics = Numerics::kCausal;
  Attention attention = Attention::kSdpa;
  bool isolate = false;
  bool report_progress = false;
  // Empty: one group a run, each ready at once.
  std::vector<RunGroup> groups;
  // Not 0: every run generates at most so many tokens.
  int max_tokens = 0;
  int64_t working_bytes = 0;
  // Of each group, and of a wave beside them.
  int64_t group_workspace_bytes = 0;
  int64_t common_workspace_bytes = 0;
  int layer_count = 2;
  int priority = 0;
  // Not 0: of each run.
  int64_t own_token_count = 0;
  // Whether runs may have in common what they have alike; then only their last
  // positions' values are asked for.
  bool may_share = false;
};

inline std::shared_ptr<const TracePlan> MakePlan(const SmallPlan& small) {
  auto plan = std::make_shared<TracePlan>();
  plan->model = small.model;
  plan->numerics = small.numerics;
  plan->attention = small.attention;
  plan->isolate = small.isolate;
  plan->priority = small.priority;
  plan->report_progress = small.report_progress;
  for (size_t run = 0; run < small.tokens_of_runs.size(); ++run) {
    const int64_t tokens = small.tokens_of_runs[run];
    plan->runs.push_back({.label = absl::StrCat(run),
                          .ids = std::vector<int32_t>(tokens, 1),
                          .position_ids = std::vector<int64_t>(tokens, 0),
                          .reach = {.layer_count = small.layer_count}});
    if (small.may_share) {
      PlannedRun& planned = plan->runs.back();
      planned.sharing = {.allowed = true,
                         .first_asked_layer = small.layer_count,
                         .first_asked_position = tokens - 1};
      planned.reach.tail_positions = {tokens - 1};
    }
    plan->runs.back().own_token_count =
        small.own_token_count > 0 ? small.own_token_count : tokens;
    if (small.max_tokens > 0) {
      plan->runs.back().generation =
          PlannedGeneration{.max_tokens = small.max_tokens};
    }
    if (small.groups.empty()) {
      plan->groups.push_back({.runs = {static_cast<int>(run)}});
    }
    plan->tensors.push_back({.label = "layer_output",
                             .run = static_cast<int>(run),
                             .point = {.hook = Hook::kLayerOutput, .layer = 1},
                             .dtype = DType::kF32,
                             .shape = {tokens},
                             .dimension_names = {"seq"},
                             .size_bytes = tokens * 4});
    plan->size_bytes += tokens * 4;
    plan->token_layers += tokens * small.layer_count;
    plan->token_layers_full_depth += tokens * small.layer_count;
  }
  for (const RunGroup& group : small.groups) {
    plan->groups.push_back(group);
    if (group.gradient_pass < 0) continue;
    plan->gradient_passes.push_back({.run = group.runs[0]});
  }
  plan->storage_bytes = plan->size_bytes;
  plan->working_bytes = small.working_bytes;
  for (RunGroup& group : plan->groups) {
    group.workspace_bytes = small.group_workspace_bytes;
  }
  plan->workspace_bytes = small.common_workspace_bytes;
  return plan;
}

}  // namespace phitap

#endif  // PHITAP_TESTS_SUPPORT_SMALL_PLANS_H_
