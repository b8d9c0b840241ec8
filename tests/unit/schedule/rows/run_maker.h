// Runs for tests of the rows that are planned for them: what is written and
// asked is said position by position, and extents and reach follow.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_UNIT_SCHEDULE_ROWS_RUN_MAKER_H_
#define PHITAP_TESTS_UNIT_SCHEDULE_ROWS_RUN_MAKER_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/schedule/rows/row_planner.h"

namespace phitap {

// A write of a run at the positions named.
struct MadeWrite {
  HookPoint point;
  std::vector<int64_t> positions;
  // Writes of equal effect do the same; 0: like no other.
  uint64_t effect = 1;
  bool mixes_positions = false;
};

// A value that is asked of a run.
struct MadeAsk {
  HookPoint point;
  std::vector<int64_t> positions;
};

struct MadeRun {
  std::vector<int32_t> ids;
  // Empty: 0, 1, …
  std::vector<int64_t> position_ids = {};
  std::vector<int64_t> hidden_positions = {};
  // In forward order.
  std::vector<MadeWrite> writes = {};
  std::vector<MadeAsk> asks = {};
  bool generates = false;
  bool allowed = true;
  bool long_factors = false;
  Attention attention = Attention::kSdpa;
  std::string caller = "ada";
};

// The layer from which on a value or write counts: see WriteExtent.
inline int LayerOf(HookPoint point, int layer_count) {
  if (point.hook == Hook::kTokenEmbeddings) return 0;
  if (point.hook > Hook::kLayerOutput) return layer_count;
  return point.layer + (point.hook == Hook::kLayerOutput ? 1 : 0);
}

inline std::vector<int64_t> AllPositions(int64_t count) {
  std::vector<int64_t> all;
  for (int64_t p = 0; p < count; ++p) all.push_back(p);
  return all;
}

// How far what is asked of a run of a model with so many layers reaches.
inline Reach ReachOf(const std::vector<MadeAsk>& asks,
                     const std::vector<MadeWrite>& writes, int layer_count) {
  Reach reach;
  const auto layers_for = [&](HookPoint point) {
    if (point.hook == Hook::kTokenEmbeddings) return 0;
    return point.hook > Hook::kLayerOutput ? layer_count : point.layer + 1;
  };
  for (const MadeAsk& ask : asks) {
    reach.layer_count = std::max(reach.layer_count, layers_for(ask.point));
  }
  std::set<int64_t> tail, norm, head;
  for (const MadeAsk& ask : asks) {
    const Hook hook = ask.point.hook;
    if (hook <= Hook::kAttentionProbabilities) continue;
    if (layers_for(ask.point) < reach.layer_count) continue;
    tail.insert(ask.positions.begin(), ask.positions.end());
    if (hook <= Hook::kLayerOutput) continue;
    norm.insert(ask.positions.begin(), ask.positions.end());
    if (hook == Hook::kFinalNormOutput) continue;
    head.insert(ask.positions.begin(), ask.positions.end());
  }
  for (const MadeWrite& write : writes) {
    // What meets in a write is needed where any of it is.
    if (!write.mixes_positions || layers_for(write.point) < reach.layer_count) {
      continue;
    }
    for (std::set<int64_t>* set : {&tail, &norm, &head}) {
      const bool meets = std::any_of(
          write.positions.begin(), write.positions.end(),
          [&](int64_t position) { return set->contains(position); });
      if (meets) set->insert(write.positions.begin(), write.positions.end());
    }
  }
  norm.insert(head.begin(), head.end());
  tail.insert(norm.begin(), norm.end());
  reach.tail_positions.assign(tail.begin(), tail.end());
  reach.norm_positions.assign(norm.begin(), norm.end());
  reach.head_positions.assign(head.begin(), head.end());
  return reach;
}

inline RunSharing SharingOf(const MadeRun& made, int layer_count) {
  RunSharing sharing = {
      .allowed = made.allowed,
      .long_factors = made.long_factors,
      .first_asked_layer = layer_count,
      .first_asked_position = static_cast<int64_t>(made.ids.size()),
      .owns_last_position = made.generates};
  for (size_t i = 0; i < made.writes.size(); ++i) {
    const MadeWrite& write = made.writes[i];
    const auto digest = write.effect == 0
                            ? std::pair<uint64_t, uint64_t>()
                            : std::make_pair(write.effect, uint64_t{1});
    sharing.writes.push_back(
        {.write = static_cast<int>(i),
         .first_layer = LayerOf(write.point, layer_count),
         .first_position =
             *std::min_element(write.positions.begin(), write.positions.end()),
         .digest = digest,
         .mixes_positions = write.mixes_positions});
  }
  for (const MadeAsk& ask : made.asks) {
    sharing.first_asked_layer =
        std::min(sharing.first_asked_layer, LayerOf(ask.point, layer_count));
    for (const int64_t position : ask.positions) {
      sharing.first_asked_position =
          std::min(sharing.first_asked_position, position);
    }
  }
  return sharing;
}

// As the one run of a plan.
inline CallerRun Make(MadeRun made, int layer_count) {
  const auto token_count = static_cast<int64_t>(made.ids.size());
  if (made.position_ids.empty()) made.position_ids = AllPositions(token_count);
  if (made.generates) {
    made.asks.push_back({{Hook::kLogits}, {token_count - 1}});
  }
  auto plan = std::make_shared<TracePlan>();
  plan->model = "tiny";
  plan->attention = made.attention;
  for (const MadeWrite& write : made.writes) {
    plan->writes.push_back(
        {.point = write.point, .selection = {.positions = write.positions}});
  }
  plan->runs.push_back({.ids = made.ids,
                        .position_ids = made.position_ids,
                        .hidden_positions = made.hidden_positions,
                        .reach = ReachOf(made.asks, made.writes, layer_count),
                        .sharing = SharingOf(made, layer_count)});
  if (made.generates) plan->runs.back().generation = PlannedGeneration{};
  return {.run = {.plan = std::move(plan)}, .caller = made.caller};
}

// Token-layers of all rows of a wave.
inline int64_t TokenLayersOf(const WavePlan& wave) {
  int64_t total = 0;
  for (const WaveRow& row : wave.rows) {
    const int layers = row.reach.layer_count - row.first_layer;
    if (layers <= 0) continue;
    total += (layers - 1) * (row.token_count - row.first_position) +
             static_cast<int64_t>(row.reach.tail_positions.size());
  }
  return total;
}

}  // namespace phitap

#endif  // PHITAP_TESTS_UNIT_SCHEDULE_ROWS_RUN_MAKER_H_
