// SPDX-License-Identifier: Apache-2.0
#include "server/schedule/rows/row_planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/unit/schedule/rows/plan_rows.h"

namespace phitap {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(RowPlannerTest, SharesAcrossCallersOnlyWhereThatIsAllowed) {
  MadeRun other = RunOf(Tokens(64));
  other.caller = "bob";
  EXPECT_THAT(
      RowsOf(PlanOf({RunOf(Tokens(64)), other}, CallerSharing::kAcrossCallers)),
      ElementsAre("0-8 x 0-64: 0,1"));
}

// A sweep over layers and positions of a prompt, in waves of so many cells;
// each cell asks for all positions of the last layer.
int64_t SweepTokenLayers(const std::vector<int64_t>& positions,
                         int cells_a_wave) {
  std::vector<MadeRun> cells;
  for (int layer = 0; layer < kLayers; ++layer) {
    for (const int64_t position : positions) {
      cells.push_back({.ids = Tokens(64),
                       .writes = {WriteAt(Output(layer), {position}, 0)},
                       .asks = {{Output(kLayers - 1), AllPositions(64)}}});
    }
  }
  int64_t token_layers = 0;
  for (size_t begin = 0; begin < cells.size(); begin += cells_a_wave) {
    std::vector<MadeRun> wave(
        cells.begin() + begin,
        cells.begin() + std::min(begin + cells_a_wave, cells.size()));
    token_layers += TokenLayersOf(PlanOf(wave));
  }
  return token_layers;
}

TEST(RowPlannerTest, ASweepCostsItsRectangles) {
  // Of 8 · 64 · 8 · 64 = 262,144: cells 28 · 2,080, and the base in each wave.
  EXPECT_EQ(SweepTokenLayers(AllPositions(64), 64), 28 * 2080 + 8 * 512);
  EXPECT_EQ(SweepTokenLayers(AllPositions(64), 512), 28 * 2080 + 512);
  // Of 8 · 8 · 64 = 4,096.
  EXPECT_EQ(SweepTokenLayers({63}, 8), 28 + 512);
}

TEST(RowPlannerTest, ARowGivesWayOnlyToAParentThatLacksNothing) {
  const MadeWrite late = WriteAt(Output(4), {40}, 2);
  const MadeWrite steer = WriteAt(Output(1), {5}, 1);
  const MadeRun plain = RunOf(Tokens(64));
  const WavePlan own = PlanOf({plain, RunOf(Tokens(64), {late})});
  EXPECT_THAT(own.rows[1].differing_writes, ElementsAre(0));

  // Its parent has a write that it has not.
  const WavePlan others = PlanOf(
      {RunOf(Tokens(64), {steer}), RunOf(Tokens(64), {late}), plain,
       With(plain, [](MadeRun& r) { r.ids = Leaving(r.ids, 50, 1000); })});
  for (const WaveRow& row : others.rows) {
    if (row.token_count == 64 && row.first_layer == 0) {
      EXPECT_THAT(row.differing_writes, IsEmpty());
    }
  }

  // Its parent goes less far.
  const MadeWrite all = WriteAt(Output(4), AllPositions(64), 3);
  MadeRun shallow = plain;
  shallow.asks = {{Output(4), AllPositions(64)}};
  const WavePlan less = PlanOf({shallow, RunOf(Tokens(64), {all})});
  ASSERT_THAT(RowsOf(less),
              ElementsAre("0-5 x 0-64: 0", "5-8 x 0-64 under 0: 1"));
  EXPECT_THAT(less.rows[1].differing_writes, IsEmpty());
}

TEST(RowPlannerTest, AParentComputesWhatRowsBelowAskOfIt) {
  MadeRun deep = RunOf(Tokens(64), {WriteAt(Output(4), {40}, 2)});
  deep.asks.push_back({Output(7), {10, 50}});
  MadeRun shallow = RunOf(Tokens(64));
  shallow.asks = {{Output(5), {3}}};
  const WavePlan wave = PlanOf({shallow, deep});
  ASSERT_THAT(RowsOf(wave),
              ElementsAre("0-8 x 0-64: 0", "5-8 x 40-64 under 0: 1"));
  EXPECT_THAT(wave.rows[0].reach.tail_positions, ElementsAre(10, 50, 63));
  EXPECT_THAT(wave.rows[0].reach.head_positions, ElementsAre(63));
  EXPECT_THAT(wave.rows[1].reach.tail_positions, ElementsAre(50, 63));
}

TEST(RowPlannerTest, LeavesOtherPassesToTheExecutor) {
  std::vector<CallerRun> runs = {Make(RunOf(Tokens(64)), kLayers),
                                 Make(RunOf(Tokens(64)), kLayers),
                                 Make(RunOf(Tokens(64)), kLayers)};
  runs[1].pass = PassKind::kGenerated;
  runs[2].run.gradient_pass = 0;
  const WavePlan wave = RowPlanner(KeepingNothing()).Plan(runs);
  EXPECT_THAT(RowsOf(wave), ElementsAre("0-8 x 0-64: 0"));
  EXPECT_EQ(wave.runs[1].row, -1);
  EXPECT_EQ(wave.runs[2].row, -1);
}

}  // namespace
}  // namespace phitap
