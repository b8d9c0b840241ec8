// Random runs that have much in common.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_UNIT_SCHEDULE_ROWS_RANDOM_RUNS_H_
#define PHITAP_TESTS_UNIT_SCHEDULE_ROWS_RANDOM_RUNS_H_

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "tests/unit/schedule/rows/run_maker.h"

namespace phitap {

// Layers of the model that they are for.
inline constexpr int kRandomLayers = 4;

class RandomRuns {
 public:
  explicit RandomRuns(uint32_t seed) : random_(seed) {}

  int Below(int end) { return static_cast<int>(random_() % end); }
  bool Chance(int percent) { return Below(100) < percent; }

  // Prompts and writes that the runs of several waves are drawn from, so that
  // they have much in common.
  void DrawPools() {
    prompts_.clear();
    writes_.clear();
    const int length = Chance(20) ? 32 + Below(6) : 1 + Below(12);
    for (int i = 0; i < 3; ++i) {
      MadeRun prompt;
      const int own_length = std::max(1, length + (Chance(30) ? Below(4) : 0));
      if (i > 0 && Chance(85)) prompt = prompts_[Below(i)];
      const int kept = i > 0 && Chance(85) ? Below(own_length + 1) : 0;
      prompt.ids.resize(own_length, 1);
      for (int p = kept; p < own_length; ++p) prompt.ids[p] = Below(3);
      prompt.position_ids = AllPositions(own_length);
      if (Chance(10)) prompt.position_ids[Below(own_length)] = 7;
      if (Chance(15)) prompt.hidden_positions = {Below(own_length)};
      std::erase_if(prompt.hidden_positions,
                    [&](int64_t p) { return p >= own_length; });
      prompts_.push_back(prompt);
    }
    for (int i = 0; i < 6; ++i) writes_.push_back(DrawWrite(length));
  }

  MadeRun Draw() {
    MadeRun run = prompts_[Below(static_cast<int>(prompts_.size()))];
    const auto length = static_cast<int64_t>(run.ids.size());
    for (int i = Below(4); i > 0; --i) {
      MadeWrite write = writes_[Below(static_cast<int>(writes_.size()))];
      if (Chance(15)) write.effect = 0;
      if (write.positions.back() < length) run.writes.push_back(write);
    }
    std::stable_sort(run.writes.begin(), run.writes.end(),
                     [](const MadeWrite& a, const MadeWrite& b) {
                       return RankOf(a.point) < RankOf(b.point);
                     });
    for (int i = Below(3); i >= 0; --i) {
      run.asks.push_back({DrawPoint(), DrawPositions(length)});
    }
    run.generates = Chance(15);
    if (run.generates) run.asks.push_back({{Hook::kLogits}, {length - 1}});
    run.allowed = !Chance(3);
    run.long_factors = Chance(5);
    if (Chance(5)) run.caller = "bob";
    return run;
  }

 private:
  static std::pair<int, int> RankOf(HookPoint point) {
    const int layer = point.hook == Hook::kTokenEmbeddings ? -1
                      : point.hook > Hook::kLayerOutput    ? kRandomLayers
                                                           : point.layer;
    return {layer, static_cast<int>(point.hook)};
  }

  HookPoint DrawPoint() {
    static constexpr Hook kHooks[] = {
        Hook::kTokenEmbeddings, Hook::kLayerInput,      Hook::kAttentionKeys,
        Hook::kAttentionScores, Hook::kAttentionOutput, Hook::kMlpOutput,
        Hook::kLayerOutput,     Hook::kLayerOutput,     Hook::kLayerOutput,
        Hook::kFinalNormOutput, Hook::kLogits};
    const Hook hook = kHooks[Below(std::size(kHooks))];
    return {.hook = hook, .layer = HasLayer(hook) ? Below(kRandomLayers) : -1};
  }

  std::vector<int64_t> DrawPositions(int64_t length) {
    const int end = static_cast<int>(length);
    if (Chance(25)) return {length - 1};
    if (Chance(25)) return AllPositions(length);
    std::set<int64_t> positions = {Below(end)};
    while (Chance(40)) positions.insert(Below(end));
    return {positions.begin(), positions.end()};
  }

  MadeWrite DrawWrite(int length) {
    return {.point = DrawPoint(),
            .positions = DrawPositions(length),
            .effect = ++effects_,
            .mixes_positions = Chance(15)};
  }

  std::mt19937 random_;
  uint64_t effects_ = 0;
  std::vector<MadeRun> prompts_;
  std::vector<MadeWrite> writes_;
};

}  // namespace phitap

#endif  // PHITAP_TESTS_UNIT_SCHEDULE_ROWS_RANDOM_RUNS_H_
