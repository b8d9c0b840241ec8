// SPDX-License-Identifier: Apache-2.0
#include "server/schedule/rows/root_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/schedule/rows/plan_rows.h"

namespace phitap {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Of 8 layers, 64 tokens.
constexpr int64_t kRootBytes = 512;

class RootTableTest : public ::testing::Test {
 protected:
  static RowPlannerOptions Options(int64_t max_root_bytes) {
    return {.max_root_bytes = max_root_bytes,
            .root_bytes = [](const std::string&, int layers, int64_t tokens) {
              return layers * tokens;
            }};
  }

  WavePlan Plan(const std::vector<MadeRun>& made) {
    std::vector<CallerRun> runs;
    for (const MadeRun& run : made) runs.push_back(Make(run, kLayers));
    return planner_.Plan(std::move(runs));
  }

  // Plans a wave that ends well.
  WavePlan Run(const std::vector<MadeRun>& made) {
    WavePlan wave = Plan(made);
    planner_.Ended(wave.rows, KeptOf(wave));
    return wave;
  }

  static std::vector<RootId> KeptOf(const WavePlan& wave) {
    std::vector<RootId> kept;
    for (const WaveRow& row : wave.rows) {
      if (row.keep_as != kNoRoot) kept.push_back(row.keep_as);
    }
    return kept;
  }

  std::vector<RootId> Forgotten() {
    std::vector<RootId> roots;
    for (const ForgottenRoot& root : planner_.TakeForgotten()) {
      EXPECT_EQ(root.executor, "tiny");
      roots.push_back(root.root);
    }
    return roots;
  }

  RowPlanner planner_{Options(2 * kRootBytes)};
};

MadeRun EditedAt(int64_t position, uint64_t effect) {
  return RunOf(Tokens(64), {WriteAt(Output(4), {position}, effect)});
}

TEST_F(RootTableTest, ARepeatedPromptCostsTheDifference) {
  const WavePlan first = Run({EditedAt(63, 1)});
  ASSERT_NE(first.rows[0].keep_as, kNoRoot);
  const WavePlan second = Run({EditedAt(63, 2)});
  EXPECT_THAT(RowsOf(second), ElementsAre("5-8 x 63-64: 0"));
  EXPECT_EQ(second.rows[0].parent_root, first.rows[0].keep_as);
  EXPECT_EQ(second.rows[0].keep_as, kNoRoot);
  EXPECT_THAT(second.rows[0].differing_writes, IsEmpty());
}

TEST_F(RootTableTest, TheSameRunAgainShowsItsOwnValues) {
  Run({EditedAt(63, 1)});
  // The head alone is asked for, of one position.
  EXPECT_THAT(RowsOf(Run({EditedAt(63, 1)})), ElementsAre("8-8 x 63-64: 0"));
  MadeRun more = EditedAt(63, 1);
  more.asks.push_back({{Hook::kMlpOutput, 5}, {30}});
  EXPECT_THAT(RowsOf(Run({more})), ElementsAre("5-8 x 30-64: 0"));
}

TEST_F(RootTableTest, ALongerPromptGoesOnFromItsBeginning) {
  Run({RunOf(Tokens(40))});
  EXPECT_THAT(RowsOf(Run({RunOf(Tokens(64))})), ElementsAre("0-8 x 40-64: 0"));
}

TEST_F(RootTableTest, PromptsThatBeginAlikeLeaveARootEachWhereItDoes) {
  Run({RunOf(Tokens(64))});
  EXPECT_THAT(RowsOf(Run({RunOf(Leaving(Tokens(64), 40, 1000)),
                          RunOf(Leaving(Tokens(64), 60, 2000))})),
              ElementsAre("0-8 x 60-64: 1", "0-8 x 40-64: 0"));
}

TEST_F(RootTableTest, ARootIsUsedAsFarAsItGoes) {
  MadeRun shallow = RunOf(Tokens(64));
  shallow.asks = {{Output(4), {10, 63}}};
  Run({shallow});
  // Deeper layers need keys of the whole prompt, and the stream before them is
  // there behind layer 3.
  EXPECT_THAT(RowsOf(Run({RunOf(Tokens(64))})), ElementsAre("4-8 x 0-64: 0"));
  MadeRun as_far = shallow;
  as_far.asks = {{Output(4), {63}}};
  EXPECT_THAT(RowsOf(Run({as_far})), ElementsAre("5-5 x 63-64: 0"));
  as_far.asks = {{Output(4), {62}}};
  EXPECT_THAT(RowsOf(Run({as_far})), ElementsAre("4-5 x 62-64: 0"));
}

TEST_F(RootTableTest, LaterWavesOfASweepFindItsBase) {
  const auto cell = [](int64_t position) { return EditedAt(position, 0); };
  EXPECT_THAT(RowsOf(Run({cell(50), cell(51)})),
              ElementsAre("0-8 x 0-64: ", "5-8 x 50-64 under 0: 0",
                          "5-8 x 51-64 under 0: 1"));
  EXPECT_THAT(RowsOf(Run({cell(52), cell(53)})),
              ElementsAre("5-8 x 52-64: 0", "5-8 x 53-64: 1"));
}

TEST_F(RootTableTest, NoOtherCallerFindsARoot) {
  Run({RunOf(Tokens(64))});
  MadeRun other = RunOf(Tokens(64));
  other.caller = "bob";
  EXPECT_THAT(RowsOf(Run({other})), ElementsAre("0-8 x 0-64: 0"));
}

TEST_F(RootTableTest, AnExecutorThatGoesTakesItsRootsAlong) {
  Run({RunOf(Tokens(64))});
  planner_.ForgetAll("other");
  EXPECT_EQ(planner_.root_bytes(), kRootBytes);
  planner_.ForgetAll("tiny");
  EXPECT_EQ(planner_.root_bytes(), 0);
  EXPECT_THAT(Forgotten(), IsEmpty());
  EXPECT_THAT(RowsOf(Run({RunOf(Tokens(64))})), ElementsAre("0-8 x 0-64: 0"));
}

TEST_F(RootTableTest, WhatTheExecutorHasNotKeptIsNotThere) {
  const WavePlan lost = Plan({RunOf(Tokens(64))});
  EXPECT_EQ(planner_.root_bytes(), kRootBytes);
  planner_.Ended(lost.rows, {});
  EXPECT_EQ(planner_.root_bytes(), 0);
  EXPECT_THAT(Forgotten(), IsEmpty());
  const WavePlan again = Run({RunOf(Tokens(64))});
  EXPECT_THAT(RowsOf(again), ElementsAre("0-8 x 0-64: 0"));
  EXPECT_NE(again.rows[0].keep_as, lost.rows[0].keep_as);
}

TEST_F(RootTableTest, ARootIsNotThereBeforeItsWaveHasEnded) {
  const WavePlan first = Plan({RunOf(Tokens(64))});
  const WavePlan second = Plan({RunOf(Tokens(64))});
  EXPECT_THAT(RowsOf(second), ElementsAre("0-8 x 0-64: 0"));
  EXPECT_EQ(second.rows[0].keep_as, kNoRoot) << "it is being made already";
  planner_.Ended(first.rows, KeptOf(first));
  planner_.Ended(second.rows, {});
}

TEST_F(RootTableTest, WhatWasUsedLongestAgoGivesWay) {
  const auto prompt = [](int32_t first) { return RunOf(Tokens(64, first)); };
  const RootId first = Run({prompt(1000)}).rows[0].keep_as;
  const RootId second = Run({prompt(2000)}).rows[0].keep_as;
  Run({prompt(1000)});  // used
  EXPECT_EQ(planner_.root_bytes(), 2 * kRootBytes);
  const RootId third = Run({prompt(3000)}).rows[0].keep_as;
  ASSERT_NE(third, kNoRoot);
  EXPECT_EQ(planner_.root_bytes(), 2 * kRootBytes);
  EXPECT_THAT(Forgotten(), ElementsAre(second));
  EXPECT_EQ(Run({prompt(1000)}).rows[0].parent_root, first);
  EXPECT_EQ(Run({prompt(3000)}).rows[0].parent_root, third);
}

TEST_F(RootTableTest, WhatNobodyHasUsedForLongGoes) {
  const WavePlan old = Run({EditedAt(63, 1)});
  const WavePlan used = Run({RunOf(Tokens(64, 1000))});
  for (int i = 0; i < RootTable::kMostAge; ++i) planner_.GrowOlder();
  EXPECT_THAT(Forgotten(), IsEmpty());
  Run({RunOf(Tokens(64, 1000))});
  planner_.GrowOlder();
  EXPECT_THAT(Forgotten(), ElementsAre(old.rows[0].keep_as));
  EXPECT_EQ(planner_.root_bytes(), kRootBytes);
  for (int i = 0; i < RootTable::kMostAge; ++i) planner_.GrowOlder();
  EXPECT_THAT(Forgotten(), ElementsAre(used.rows[0].keep_as));
  EXPECT_EQ(planner_.root_bytes(), 0);
}

TEST_F(RootTableTest, WhatIsFoundAgainIsYoungAgain) {
  RootTable roots(kRootBytes, Options(0).root_bytes);
  const std::vector<int32_t> ids = Tokens(64);
  const std::vector<int64_t> positions(64);
  const ComparedRow row = {.sequence = {.ids = ids, .position_ids = positions}};
  const Reach reach = {.layer_count = kLayers};
  const RootId kept = roots.Reserve({}, row, reach);
  roots.Settle(kept, RootTable::Fate::kKept);
  for (int i = 0; i < RootTable::kMostAge; ++i) roots.GrowOlder();
  EXPECT_EQ(roots.Reserve({}, row, reach), kNoRoot);
  roots.GrowOlder();
  EXPECT_THAT(roots.TakeForgotten(), IsEmpty());
}

TEST_F(RootTableTest, WhatAWaveUnderWayUsesGrowsNoOlder) {
  Run({EditedAt(63, 1)});
  const WavePlan under_way = Plan({EditedAt(63, 2)});
  for (int i = 0; i < 2 * RootTable::kMostAge; ++i) planner_.GrowOlder();
  EXPECT_THAT(Forgotten(), IsEmpty());
  planner_.Ended(under_way.rows, {});
  EXPECT_THAT(RowsOf(Run({EditedAt(63, 3)})), ElementsAre("5-8 x 63-64: 0"));
}

TEST_F(RootTableTest, WhatAWaveUnderWayUsesDoesNotGiveWay) {
  const auto prompt = [](int32_t first) { return RunOf(Tokens(64, first)); };
  Run({prompt(1000), prompt(2000)});
  const WavePlan under_way = Plan({prompt(1000), prompt(2000)});
  EXPECT_EQ(Run({prompt(3000)}).rows[0].keep_as, kNoRoot);
  planner_.Ended(under_way.rows, {});
  EXPECT_NE(Run({prompt(3000)}).rows[0].keep_as, kNoRoot);
}

TEST_F(RootTableTest, NoneIsKeptThatAnotherContains) {
  MadeRun shallow = RunOf(Tokens(64));
  shallow.asks = {{Output(4), {63}}, {{Hook::kTokenEmbeddings}, {0}}};
  MadeRun deep = RunOf(Tokens(64));
  deep.asks.push_back({{Hook::kTokenEmbeddings}, {0}});
  const RootId first = Run({shallow}).rows[0].keep_as;
  EXPECT_EQ(Run({shallow}).rows[0].keep_as, kNoRoot);
  EXPECT_NE(Run({deep}).rows[0].keep_as, kNoRoot);
  EXPECT_THAT(Forgotten(), ElementsAre(first));
  EXPECT_EQ(planner_.root_bytes(), kRootBytes);
  EXPECT_EQ(Run({shallow}).rows[0].keep_as, kNoRoot);
}

TEST_F(RootTableTest, ShortPromptsAreNotKept) {
  EXPECT_EQ(Run({RunOf(Tokens(31))}).rows[0].keep_as, kNoRoot);
  EXPECT_NE(Run({RunOf(Tokens(32))}).rows[0].keep_as, kNoRoot);
}

TEST_F(RootTableTest, NothingIsKeptThatDoesNotFit) {
  EXPECT_EQ(Run({RunOf(Tokens(200))}).rows[0].keep_as, kNoRoot);
  RowPlanner none(Options(0));
  EXPECT_EQ(none.Plan({Make(RunOf(Tokens(64)), kLayers)}).rows[0].keep_as,
            kNoRoot);
}

}  // namespace
}  // namespace phitap
