// What runs see of rows that they share.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/run_wave.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/trace/rows_fixture.h"

namespace phitap {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string RunOf(const std::string& label, const std::string& edits = "",
                  int length = 9) {
  return absl::StrCat("runs { label: '", label, "' prompt { ", PromptOf(length),
                      " } ", edits, " } ");
}

std::string AddAt(const std::string& point, int position, double number) {
  return absl::StrCat("interventions { hook_points: '", point,
                      "' selection { positions { indices: ", position,
                      " } } add { value { number: ", number, " } } }");
}

constexpr char kOutputs[] = R"pb(
  captures { hook_points: 'layers.*.layer_output' }
  captures { hook_points: 'logits' }
)pb";

TEST_F(Rows, ComputeOnceWhatSeveralRunsHave) {
  const Request request =
      Ask(RunOf("a") + RunOf("b") + RunOf("c", "", 5) + kOutputs);
  WavePlan wave = request.Wave();
  wave.rows.push_back(WholeRow(request, 0, layer_count()));
  for (WaveRun& run : wave.runs) run.row = 0;
  ExpectBytesOfRunsAlone(request, wave);
  EXPECT_THAT(request.sink->TokensByLayer(), ElementsAre(9, 9, 9));
  for (const int run : {0, 1, 2}) EXPECT_EQ(request.sink->LayersDone(run), 3);
}

TEST_F(Rows, ShowWhatAnotherRunReadsOfThemBeforeItIsWritten) {
  // The writer stands first, and reads what its parent row shows.
  const Request request =
      Ask(RunOf("writer", R"pb(interventions {
                                 hook_points: 'layers.1.mlp_output'
                                 selection { positions { indices: 6 } }
                                 set {
                                   value {
                                     run {
                                       run: 'source'
                                       selection { positions { indices: 2 } }
                                     }
                                   }
                                 }
                               })pb") +
          RunOf("source", AddAt("layers.1.mlp_output", 8, 0.5)) + kOutputs);
  WavePlan wave = request.Wave();
  wave.rows.push_back(WholeRow(request, 1, layer_count()));
  wave.rows.back().writes.clear();
  wave.rows.push_back(RowBelow(request, 0, layer_count(), 0, 1, 6));
  wave.rows.push_back(RowBelow(request, 1, layer_count(), 0, 1, 8));
  wave.runs[0].row = 1;
  wave.runs[1].row = 2;
  ExpectBytesOfRunsAlone(request, wave);
}

TEST_F(Rows, GiveWayOnceTheirWritesHaveChangedNoBit) {
  const Request request =
      Ask(RunOf("clean") +
          RunOf("same", R"pb(interventions {
                               hook_points: 'layers.0.layer_output'
                               selection { positions { indices: 4 } }
                               set { value { run { run: 'clean' } } }
                             })pb") +
          RunOf("other", AddAt("layers.0.layer_output", 4, 0.5)) + kOutputs);
  WavePlan wave = request.Wave();
  wave.rows.push_back(WholeRow(request, 0, layer_count()));
  for (const int run : {1, 2}) {
    wave.rows.push_back(RowBelow(request, run, layer_count(), 0, 1, 4));
    wave.rows.back().differing_writes = wave.rows.back().writes;
    wave.runs[run].row = run;
  }
  wave.runs[0].row = 0;
  ExpectBytesOfRunsAlone(request, wave);
  // The prompt, and five positions of what differs.
  EXPECT_THAT(request.sink->TokensByLayer(), ElementsAre(9, 14, 14));
  for (const int run : {0, 1, 2}) EXPECT_EQ(request.sink->LayersDone(run), 3);
}

TEST_F(Rows, StayWhereAWriteChangesABitLater) {
  const std::string none = AddAt("layers.0.attention_output", 4, 0);
  const Request request =
      Ask(RunOf("clean") +
          RunOf("late", none + AddAt("layers.2.mlp_output", 4, 0.5)) +
          RunOf("never", none + AddAt("layers.1.mlp_output", 4, 0)) + kOutputs);
  WavePlan wave = request.Wave();
  wave.rows.push_back(WholeRow(request, 0, layer_count()));
  for (const int run : {1, 2}) {
    wave.rows.push_back(RowBelow(request, run, layer_count(), 0, 0, 4));
    wave.rows.back().differing_writes = wave.rows.back().writes;
    wave.runs[run].row = run;
  }
  wave.runs[0].row = 0;
  ExpectBytesOfRunsAlone(request, wave);
  EXPECT_THAT(request.sink->TokensByLayer(), ElementsAre(19, 19, 14));
}

TEST_F(Rows, StayUntilTheirParentShowsAsMuch) {
  const std::string steer = AddAt("layers.1.layer_output", 4, 0.5);
  const Request request =
      Ask(RunOf("clean") + RunOf("steered", steer) +
          RunOf("both", AddAt("layers.0.attention_output", 5, 0) + steer) +
          RunOf("before", AddAt("layers.0.attention_output", 3, 0) + steer) +
          kOutputs + "captures { hook_points: 'layers.*.mlp_output' }");
  WavePlan wave = request.Wave();
  wave.rows.push_back(WholeRow(request, 0, layer_count()));
  wave.rows.push_back(RowBelow(request, 1, layer_count(), 0, 2, 4));
  for (const int run : {2, 3}) {
    wave.rows.push_back(
        RowBelow(request, run, layer_count(), 1, 0, run == 2 ? 5 : 3));
    wave.rows.back().differing_writes = {wave.rows.back().writes.front()};
  }
  for (const int run : {0, 1, 2, 3}) wave.runs[run].row = run;
  ExpectBytesOfRunsAlone(request, wave);
  // The third row goes once the second is there, the fourth has a position that
  // the second has not.
  EXPECT_THAT(request.sink->TokensByLayer(), ElementsAre(19, 19, 20));
}

TEST_F(Rows, GiveWayToAParentThatBeginsBehindWhatTheirRunsAskFor) {
  const std::string steer = AddAt("layers.1.layer_output", 4, 0.5);
  const Request request =
      Ask(RunOf("clean") + RunOf("steered", steer) +
          RunOf("before", AddAt("layers.0.attention_output", 3, 0) + steer) +
          "captures { hook_points: 'layers.*.layer_output' runs: 'clean' }"
          "captures { hook_points: 'logits' selection { positions { indices: "
          "-1 } } }");
  WavePlan wave = request.Wave();
  wave.rows.push_back(WholeRow(request, 0, layer_count()));
  wave.rows.push_back(RowBelow(request, 1, layer_count(), 0, 2, 4));
  wave.rows.push_back(RowBelow(request, 2, layer_count(), 1, 0, 3));
  wave.rows.back().differing_writes = {wave.rows.back().writes.front()};
  for (const int run : {0, 1, 2}) wave.runs[run].row = run;
  ExpectBytesOfRunsAlone(request, wave);
  EXPECT_THAT(request.sink->TokensByLayer(), ElementsAre(15, 15, 14));
}

TEST_F(Rows, GoOnForTheRunsThatAreLeft) {
  const Request request = Ask(
      RunOf("a") + RunOf("b") + RunOf("c", AddAt("layers.1.mlp_output", 7, 1)) +
      RunOf("d", AddAt("layers.1.mlp_output", 6, 1)) + kOutputs);
  request.sink->CancelAfter(0, 1);
  request.sink->CancelAfter(2, 2);
  WavePlan wave = request.Wave();
  wave.rows.push_back(WholeRow(request, 0, layer_count()));
  wave.rows.push_back(RowBelow(request, 2, layer_count(), 0, 1, 7));
  wave.rows.push_back(RowBelow(request, 3, layer_count(), 0, 1, 6));
  wave.runs[0].row = wave.runs[1].row = 0;
  wave.runs[2].row = 1;
  wave.runs[3].row = 2;
  const std::vector<RowOutcome> outcomes = Run(wave);
  EXPECT_TRUE(absl::IsCancelled(outcomes[0].status));
  EXPECT_THAT(outcomes[1].status, IsOk());
  EXPECT_TRUE(absl::IsCancelled(outcomes[2].status));
  EXPECT_THAT(outcomes[3].status, IsOk());
  EXPECT_THAT(request.sink->TokensByLayer(), ElementsAre(9, 14, 12));
  const Request alone = Ask(request.plan);
  Run(alone.Wave());
  for (const auto& [tensor, bytes] : alone.sink->bytes()) {
    const int run = request.plan->tensors[tensor].run;
    if (run == 0 || run == 2) continue;
    EXPECT_EQ(request.sink->bytes().at(tensor), bytes) << tensor;
  }
}

TEST_F(Rows, AreLeftOnceNobodyNeedsThem) {
  const Request request = Ask(
      RunOf("a") + RunOf("b", AddAt("layers.2.mlp_output", 7, 1)) + kOutputs);
  request.sink->CancelAfter(0, 1);
  request.sink->CancelAfter(1, 2);
  WavePlan wave = request.Wave();
  wave.rows.push_back(WholeRow(request, 0, layer_count()));
  wave.rows.push_back(RowBelow(request, 1, layer_count(), 0, 2, 7));
  wave.runs[0].row = 0;
  wave.runs[1].row = 1;
  for (const RowOutcome& outcome : Run(wave)) {
    EXPECT_TRUE(absl::IsCancelled(outcome.status));
  }
  EXPECT_THAT(request.sink->TokensByLayer(), ElementsAre(9, 9));
}

TEST_F(Rows, FailOnlyTheRunsWhoseOwnWriteFails) {
  const Request planned =
      Ask(RunOf("bad", AddAt("layers.1.mlp_output", 4, 1)) +
          RunOf("also", AddAt("layers.1.mlp_output", 4, 1)) +
          RunOf("below", AddAt("layers.2.mlp_output", 4, 1)) + kOutputs);
  TracePlan broken = *planned.plan;
  // No planner makes such writes.
  for (const int write : {0, 1}) {
    broken.writes[write].selection.features = {0, engine_.spec().hidden_size};
  }
  const Request request = Ask(std::make_shared<const TracePlan>(broken));
  WavePlan wave = request.Wave();
  wave.rows.push_back(WholeRow(request, 0, layer_count()));
  wave.rows.push_back(RowBelow(request, 2, layer_count(), 0, 1, 4));
  wave.runs[0].row = wave.runs[1].row = 0;
  wave.runs[2].row = 1;
  const std::vector<RowOutcome> outcomes = Run(wave);
  EXPECT_THAT(outcomes[0].status,
              StatusIs(absl::StatusCode::kInternal, HasSubstr("")));
  EXPECT_THAT(outcomes[1].status,
              StatusIs(absl::StatusCode::kInternal, HasSubstr("")));
  EXPECT_THAT(outcomes[2].status, IsOk());
  const Request alone = Ask(request.plan);
  Run(alone.Wave());
  EXPECT_EQ(request.sink->bytes(), alone.sink->bytes());
}

TEST_F(Rows, GoOnFromOnesThatEarlierWavesHaveKept) {
  const Request first = Ask(RunOf("first", "", 40) + kOutputs);
  WavePlan wave = first.Wave();
  wave.rows.push_back(WholeRow(first, 0, layer_count()));
  wave.rows.back().keep_as = 7;
  wave.runs[0].row = 0;
  const std::unique_ptr<RunningWave> running = engine_.executor().Start(wave);
  while (running->Step()) {
  }
  EXPECT_THAT(running->Finish(), testing::SizeIs(1));
  EXPECT_THAT(running->kept_roots(), ElementsAre(7));

  // Only from layer 1 and position 30 on is anything asked.
  const Request second =
      Ask(RunOf("second", AddAt("layers.1.mlp_output", 30, 1), 40) + R"pb(
        captures {
          hook_points: 'layers.1.layer_output'
          selection { positions { ranges { start: 30 } } }
        }
        captures { hook_points: 'next_token_probs' }
      )pb");
  WavePlan next = second.Wave();
  next.rows.push_back(RowBelow(second, 0, layer_count(), -1, 1, 30));
  next.rows.back().parent_root = 7;
  next.runs[0].row = 0;
  ExpectBytesOfRunsAlone(second, next);
  EXPECT_THAT(second.sink->TokensByLayer(), ElementsAre(0, 10, 10));

  // What the root is asked to show it cannot.
  const Request third = Ask(second.plan);
  next.runs = third.Wave().runs;
  next.runs[0].row = 0;
  next.rows[0].first_position = 35;
  next.rows[0].reach = RowBelow(third, 0, layer_count(), -1, 1, 35).reach;
  EXPECT_THAT(Run(next)[0].status, StatusIs(absl::StatusCode::kInternal,
                                            HasSubstr("cannot show again")));

  // Gone, it is computed again.
  engine_.executor().ForgetRoot(7);
  const Request fourth = Ask(second.plan);
  next.runs = fourth.Wave().runs;
  next.runs[0].row = 0;
  ExpectBytesOfRunsAlone(fourth, next);
  EXPECT_THAT(fourth.sink->TokensByLayer(), ElementsAre(40, 40, 1));
}

TEST_F(Rows, FillTheCacheOfEachRunThatGenerates) {
  const std::string generation =
      " generation { max_tokens: 4 ignore_stop_ids: true } ";
  const Request request =
      Ask(RunOf("a", generation, 34) + RunOf("b", generation, 34) +
          RunOf("c", AddAt("layers.1.layer_output", 20, 1) + generation, 34) +
          RunOf("d", generation, 30) + kOutputs);
  WavePlan wave = request.Wave();
  wave.rows.push_back(WholeRow(request, 0, layer_count()));
  wave.rows.push_back(RowBelow(request, 2, layer_count(), 0, 2, 20));
  wave.rows.push_back(RowBelow(request, 3, layer_count(), 0, 0, 29));
  wave.runs[0].row = wave.runs[1].row = 0;
  wave.runs[2].row = 1;
  wave.runs[3].row = 2;
  ExpectBytesOfRunsAlone(request, wave);
  // The second has the first one's row computed again. Then one token each.
  EXPECT_THAT(request.sink->TokensByLayer(),
              ElementsAre(69, 69, 83, 4, 4, 4, 4, 4, 4, 4, 4, 4));
}

TEST_F(Rows, LetWavesTakeTurnsAndBeGivenUp) {
  const Request given_up = Ask(RunOf("a") + kOutputs);
  const Request one = Ask(given_up.plan);
  const Request two = Ask(given_up.plan);
  {
    const auto wave = engine_.executor().Start(given_up.Wave());
    EXPECT_TRUE(wave->Step());
  }
  const auto first = engine_.executor().Start(one.Wave());
  const auto second = engine_.executor().Start(two.Wave());
  int steps = 1;
  for (; first->Step(); ++steps) EXPECT_TRUE(second->Step());
  EXPECT_FALSE(second->Step());
  EXPECT_EQ(steps, layer_count());
  EXPECT_THAT(first->Finish()[0].status, IsOk());
  EXPECT_THAT(second->Finish()[0].status, IsOk());
  EXPECT_EQ(one.sink->bytes(), two.sink->bytes());
  // Nothing of the first is in the memory: it can be run.
  const Request whole{.plan = given_up.plan, .memory = given_up.memory};
  EXPECT_THAT(Run(whole.Wave())[0].status, IsOk());
}

}  // namespace
}  // namespace phitap
