// Random runs, planned together and computed by an engine whose values say what
// has reached them: each run must show what it shows alone.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/unit/schedule/rows/random_runs.h"
#include "tests/unit/schedule/rows/run_maker.h"
#include "tests/unit/schedule/rows/symbolic_engine.h"

namespace phitap {
namespace {

int64_t AloneTokenLayers(const WavePlan& wave) {
  int64_t total = 0;
  for (const WaveRun& run : wave.runs) {
    const PlannedRun& planned = run.plan->runs[run.run];
    if (run.row < 0 || planned.reach.layer_count == 0) continue;
    total += (planned.reach.layer_count - 1) * planned.ids.size() +
             planned.reach.tail_positions.size();
  }
  return total;
}

std::string Listed(const std::vector<int64_t>& positions) {
  return absl::StrCat("{", absl::StrJoin(positions, ","), "}");
}

// The runs and rows of a wave, for failures.
std::string Described(const WavePlan& wave, const std::vector<MadeRun>& made) {
  std::string text;
  for (size_t i = 0; i < made.size(); ++i) {
    const MadeRun& run = made[i];
    absl::StrAppend(&text, "run ", i, " row ", wave.runs[i].row, " ids ",
                    absl::StrJoin(run.ids, ""), " positions ",
                    Listed(run.position_ids), " hidden ",
                    Listed(run.hidden_positions), run.generates ? " gen" : "");
    for (const MadeWrite& write : run.writes) {
      absl::StrAppend(&text, "\n  write ", FullName(write.point), " ",
                      Listed(write.positions), " effect ", write.effect,
                      write.mixes_positions ? " mixes" : "");
    }
    for (const MadeAsk& ask : run.asks) {
      absl::StrAppend(&text, "\n  ask ", FullName(ask.point), " ",
                      Listed(ask.positions));
    }
    text += "\n";
  }
  for (size_t i = 0; i < wave.rows.size(); ++i) {
    const WaveRow& row = wave.rows[i];
    absl::StrAppend(&text, "row ", i, " leader ", row.leader, " from layer ",
                    row.first_layer, " position ", row.first_position, " of ",
                    row.token_count, " parent ", row.parent, " root ",
                    row.parent_root, " keep ", row.keep_as, " layers ",
                    row.reach.layer_count, " tail ",
                    Listed(row.reach.tail_positions), " writes ",
                    absl::StrJoin(row.writes, ","), " differing ",
                    absl::StrJoin(row.differing_writes, ","), "\n");
  }
  return text;
}

// What a wave's rows are beyond what shows in values.
void ExpectSoundRow(const WavePlan& wave, size_t index,
                    const std::vector<MadeRun>& made) {
  const WaveRow& row = wave.rows[index];
  const MadeRun& leader = made[row.leader];
  ASSERT_LT(row.parent, static_cast<int>(index));
  ASSERT_TRUE(row.parent < 0 || row.parent_root == kNoRoot);
  const bool has_parent = row.parent >= 0 || row.parent_root != kNoRoot;
  ASSERT_TRUE(has_parent || (row.first_layer == 0 && row.first_position == 0));
  ASSERT_TRUE(!has_parent || row.keep_as == kNoRoot);
  if (row.parent >= 0) {
    ASSERT_EQ(made[wave.rows[row.parent].leader].caller, leader.caller);
  }
  ASSERT_LE(row.first_layer, row.reach.layer_count);
  ASSERT_LE(row.token_count, leader.ids.size());
  if (!row.reach.tail_positions.empty()) {
    ASSERT_GE(row.reach.tail_positions.front(), row.first_position);
    ASSERT_LT(row.reach.tail_positions.back(), row.token_count);
  }
  for (const int write : row.writes) {
    ASSERT_LT(leader.writes[write].positions.front(), row.token_count);
  }
}

// Dynamic writes are in rows without children, of one run.
void ExpectDynamicWritesAlone(const WavePlan& wave,
                              const std::vector<MadeRun>& made) {
  std::vector<int> user_counts(wave.rows.size(), 0);
  for (const WaveRun& run : wave.runs) {
    if (run.row >= 0) ++user_counts[run.row];
  }
  for (const WaveRow& row : wave.rows) {
    if (row.parent >= 0) user_counts[row.parent] += 2;
  }
  for (size_t i = 0; i < wave.rows.size(); ++i) {
    for (const int write : wave.rows[i].writes) {
      ASSERT_TRUE(user_counts[i] <= 1 ||
                  made[wave.rows[i].leader].writes[write].effect != 0);
    }
  }
}

void ExpectSoundRows(const WavePlan& wave, const std::vector<MadeRun>& made) {
  std::set<int> caching;
  for (size_t i = 0; i < wave.runs.size(); ++i) {
    ASSERT_EQ(wave.runs[i].row >= 0, made[i].allowed);
    if (wave.runs[i].row < 0) continue;
    const WaveRow& row = wave.rows[wave.runs[i].row];
    ASSERT_EQ(row.token_count, made[i].ids.size());
    ASSERT_EQ(made[row.leader].caller, made[i].caller);
    if (!made[i].generates) continue;
    ASSERT_LT(row.first_position, row.token_count);
    ASSERT_THAT(row.differing_writes, ::testing::IsEmpty());
    ASSERT_TRUE(caching.insert(wave.runs[i].row).second)
        << "two runs that generate have one row";
  }
  for (size_t i = 0; i < wave.rows.size(); ++i) {
    ASSERT_NO_FATAL_FAILURE(ExpectSoundRow(wave, i, made));
  }
  ExpectDynamicWritesAlone(wave, made);
}

class RandomWavesTest : public ::testing::TestWithParam<int> {
 protected:
  static RowPlannerOptions Options() {
    return {.max_root_bytes = 500,
            .root_bytes = [](const std::string&, int layers, int64_t tokens) {
              return layers * tokens;
            }};
  }

  // Plans, computes and compares a wave; ends it.
  void RunWave(RandomRuns& random) {
    std::vector<MadeRun> made;
    std::vector<CallerRun> runs;
    for (int i = random.Below(7); i >= 0; --i) {
      made.push_back(random.Draw());
      runs.push_back(Make(made.back(), kRandomLayers));
    }
    const WavePlan wave = planner_.Plan(runs);
    ASSERT_NO_FATAL_FAILURE(ExpectSoundRows(wave, made));
    EXPECT_LE(TokenLayersOf(wave), AloneTokenLayers(wave));
    EXPECT_LE(planner_.root_bytes(), 500);
    engine_.Execute(wave, made);
    for (const ForgottenRoot& root : planner_.TakeForgotten()) {
      engine_.Forget(root.root);
    }
    for (size_t i = 0; i < made.size(); ++i) {
      if (wave.runs[i].row >= 0) ExpectShownAsAlone(made[i], i);
    }
    ASSERT_THAT(engine_.problems(), ::testing::IsEmpty())
        << Described(wave, made);
    ASSERT_FALSE(HasFailure()) << Described(wave, made);
    std::vector<RootId> kept;
    for (size_t i = 0; i < wave.rows.size(); ++i) {
      if (wave.rows[i].keep_as == kNoRoot || random.Chance(20)) continue;
      engine_.Keep(i);
      kept.push_back(wave.rows[i].keep_as);
      ++kept_;
    }
    planner_.Ended(wave.rows, kept);
    for (const WaveRow& row : wave.rows) {
      shared_ += row.parent >= 0;
      from_roots_ += row.parent_root != kNoRoot;
    }
    for (const ForgottenRoot& root : planner_.TakeForgotten()) {
      engine_.Forget(root.root);
    }
  }

  void ExpectShownAsAlone(const MadeRun& run, size_t index) {
    const SymbolicRow alone = engine_.Alone(run, static_cast<int>(index));
    for (const MadeAsk& ask : run.asks) {
      const SymbolicLine& line =
          alone.values.at({ask.point.hook, ask.point.layer});
      for (const int64_t position : ask.positions) {
        ++compared_;
        EXPECT_EQ(engine_.Show(static_cast<int>(index), ask.point, position),
                  line[position])
            << "run " << index << " at " << FullName(ask.point) << ", position "
            << position;
      }
    }
  }

  RowPlanner planner_{Options()};
  SymbolicEngine engine_{kRandomLayers};
  int64_t compared_ = 0;
  int64_t shared_ = 0;
  int64_t from_roots_ = 0;
  int64_t kept_ = 0;
};

TEST_P(RandomWavesTest, ShowEveryRunWhatItShowsAlone) {
  RandomRuns random(static_cast<uint32_t>(GetParam()));
  for (int trial = 0; trial < 1250 && !HasFailure(); ++trial) {
    if (trial % 4 == 0) random.DrawPools();
    ASSERT_NO_FATAL_FAILURE(RunWave(random));
  }
  EXPECT_GT(compared_, 10000);
  EXPECT_GT(shared_, 500);
  EXPECT_GT(from_roots_, 20);
  EXPECT_GT(kept_, 20);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomWavesTest, ::testing::Range(1, 17));

}  // namespace
}  // namespace phitap
