// Plans rows of runs that are said in short, and says them in short.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_UNIT_SCHEDULE_ROWS_PLAN_ROWS_H_
#define PHITAP_TESTS_UNIT_SCHEDULE_ROWS_PLAN_ROWS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/schedule/rows/row_planner.h"
#include "tests/unit/schedule/rows/run_maker.h"

namespace phitap {

// Layers of the model in these tests.
inline constexpr int kLayers = 8;

inline std::vector<int32_t> Tokens(int count, int32_t first = 100) {
  std::vector<int32_t> ids;
  for (int i = 0; i < count; ++i) ids.push_back(first + i);
  return ids;
}

// The first `kept` of them, then others.
inline std::vector<int32_t> Leaving(std::vector<int32_t> ids, int kept,
                                    int32_t by) {
  for (size_t i = kept; i < ids.size(); ++i) ids[i] += by;
  return ids;
}

inline HookPoint Output(int layer) {
  return {.hook = Hook::kLayerOutput, .layer = layer};
}

inline MadeWrite WriteAt(HookPoint point, std::vector<int64_t> positions,
                         uint64_t effect) {
  return {.point = point, .positions = std::move(positions), .effect = effect};
}

// Asks for the logits of its last position.
inline MadeRun RunOf(std::vector<int32_t> ids,
                     std::vector<MadeWrite> writes = {}) {
  const auto last = static_cast<int64_t>(ids.size()) - 1;
  return {.ids = std::move(ids),
          .writes = std::move(writes),
          .asks = {{{Hook::kLogits}, {last}}}};
}

inline RowPlannerOptions KeepingNothing() {
  return {.root_bytes = [](const std::string&, int, int64_t) { return 0; }};
}

inline WavePlan PlanOf(const std::vector<MadeRun>& made,
                       CallerSharing sharing = CallerSharing::kWithinCaller) {
  RowPlannerOptions options = KeepingNothing();
  options.sharing = sharing;
  std::vector<CallerRun> runs;
  for (const MadeRun& run : made) runs.push_back(Make(run, kLayers));
  return RowPlanner(options).Plan(std::move(runs));
}

// Each row: its layers × positions, its parent and its runs.
inline std::vector<std::string> RowsOf(const WavePlan& wave) {
  std::vector<std::string> rows;
  for (size_t i = 0; i < wave.rows.size(); ++i) {
    const WaveRow& row = wave.rows[i];
    std::vector<int> runs;
    for (size_t run = 0; run < wave.runs.size(); ++run) {
      if (wave.runs[run].row == static_cast<int>(i)) {
        runs.push_back(static_cast<int>(run));
      }
    }
    rows.push_back(
        absl::StrCat(row.first_layer, "-", row.reach.layer_count, " x ",
                     row.first_position, "-", row.token_count,
                     row.parent < 0 ? "" : absl::StrCat(" under ", row.parent),
                     ": ", absl::StrJoin(runs, ",")));
  }
  return rows;
}

inline MadeRun With(MadeRun run, void (*change)(MadeRun&)) {
  change(run);
  return run;
}

}  // namespace phitap

#endif  // PHITAP_TESTS_UNIT_SCHEDULE_ROWS_PLAN_ROWS_H_
