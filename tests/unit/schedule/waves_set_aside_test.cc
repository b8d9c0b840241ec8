#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/schedule/scheduler_fixture.h"

namespace phitap {
namespace {

// Waves have eight layers, and are named by the tokens of their first run.
class WavesSetAsideTest : public SchedulerTest {
 protected:
  using Stream = absl::StatusOr<std::shared_ptr<ResultStream>>;

  void StartLayers() {
    Start({.max_wave_tokens = 10000}, PuppetSteps::kLayers);
  }
  // A request of one run, read by nobody.
  Stream SubmitRun(int tokens, const std::string& model = "tiny") {
    return Submit(
        {.model = model, .tokens_of_runs = {tokens}, .layer_count = 8},
        reader_);
  }
  // Lets so many steps be made, "400:0" is layer 0 of the wave of 400.
  std::string Steps(int count) {
    std::string steps;
    for (int i = 0; i < count; ++i) {
      absl::StrAppend(&steps, i == 0 ? "" : " ", NameOf(stage_.StepNext()));
    }
    return steps;
  }
  std::string NameOf(const ShownStep& step) {
    return absl::StrCat(step.rows[0].plan->runs[0].ids.size(), ":", step.step);
  }
  // The same of a wave of two layers whose run generates on.
  std::string GenerateOn() {
    const std::string first = Steps(1);
    const std::string last = Next();
    stage_.Complete({{.goes_on = true}});
    return absl::StrCat(first, " ", last);
  }
  // The step that is to be made next.
  std::string Next() { return NameOf(stage_.AwaitStep()); }

  Reader reader_;
};

TEST_F(WavesSetAsideTest, RunsASmallWaveToItsEndBetweenTwoLayersOfALarge) {
  StartLayers();
  Reader reader;
  auto large = SubmitRun(400);
  EXPECT_EQ(Next(), "400:0");
  Stream small = Submit({.tokens_of_runs = {10}, .layer_count = 3}, reader);
  EXPECT_EQ(Steps(4), "400:0 10:0 10:1 10:2");
  std::get<TraceFinished>(reader.End(**small));
  EXPECT_EQ(Steps(7), "400:1 400:2 400:3 400:4 400:5 400:6 400:7");
}

TEST_F(WavesSetAsideTest, GoesOnByALayerBeforeTheNextSmallOne) {
  StartLayers();
  auto large = SubmitRun(400);
  EXPECT_EQ(Next(), "400:0");
  auto first = SubmitRun(10);
  EXPECT_EQ(Steps(1), "400:0");
  EXPECT_EQ(Next(), "10:0");
  auto second = SubmitRun(20);
  stage_.CompleteNext();
  EXPECT_EQ(Steps(2), "400:1 20:0");
}

TEST_F(WavesSetAsideTest, GoesOnByAsMuchAsTheSmallOneWas) {
  StartLayers();
  auto large = SubmitRun(2000);
  EXPECT_EQ(Next(), "2000:0");
  auto first = SubmitRun(300);
  EXPECT_EQ(Steps(1), "2000:0");
  EXPECT_EQ(Next(), "300:0");
  auto second = SubmitRun(300);
  stage_.CompleteNext();
  // 300 · 8 token-layers are more than one layer of 2000.
  EXPECT_EQ(Steps(3), "2000:1 2000:2 300:0");
}

TEST_F(WavesSetAsideTest, BatchesTheSmallOnesThatWait) {
  StartLayers();
  auto large = SubmitRun(400);
  EXPECT_EQ(Next(), "400:0");
  auto first = SubmitRun(10);
  caller_ = std::string("ben");
  auto second = SubmitRun(11);
  EXPECT_EQ(Steps(1), "400:0");
  EXPECT_EQ(stage_.AwaitStep().rows.size(), 2u);
}

TEST_F(WavesSetAsideTest, IsNotSetAsideForWhatIsNotClearlySmaller) {
  StartLayers();
  auto large = SubmitRun(400);
  EXPECT_EQ(Next(), "400:0");
  auto other = SubmitRun(100);
  EXPECT_EQ(Steps(8), "400:0 400:1 400:2 400:3 400:4 400:5 400:6 400:7");
  EXPECT_EQ(Next(), "100:0");
}

TEST_F(WavesSetAsideTest, IsNotSetAsideWhereALayerHasFewTokens) {
  StartLayers();
  auto large = SubmitRun(60);
  EXPECT_EQ(Next(), "60:0");
  auto small = SubmitRun(1);
  EXPECT_EQ(Steps(8), "60:0 60:1 60:2 60:3 60:4 60:5 60:6 60:7");
  EXPECT_EQ(Next(), "1:0");
}

TEST_F(WavesSetAsideTest, SetsTwoAsideButNotThree) {
  StartLayers();
  auto large = SubmitRun(8000);
  EXPECT_EQ(Next(), "8000:0");
  auto middle = SubmitRun(1000);
  EXPECT_EQ(Steps(1), "8000:0");
  EXPECT_EQ(Next(), "1000:0");
  auto small = SubmitRun(100);
  EXPECT_EQ(Steps(1), "1000:0");
  EXPECT_EQ(Next(), "100:0");
  auto smallest = SubmitRun(2);
  EXPECT_EQ(Steps(8), "100:0 100:1 100:2 100:3 100:4 100:5 100:6 100:7");
  EXPECT_EQ(Steps(2), "1000:1 2:0");
}

TEST_F(WavesSetAsideTest, IsNotSetAsideForWhatDoesNotFitIntoMemoryBesideIt) {
  Start({.memory = {.max_workspace_bytes = 100}}, PuppetSteps::kLayers);
  auto large = Submit(
      {.tokens_of_runs = {400}, .group_workspace_bytes = 80, .layer_count = 2},
      reader_);
  EXPECT_EQ(Next(), "400:0");
  auto small =
      Submit({.tokens_of_runs = {10}, .group_workspace_bytes = 21}, reader_);
  auto smaller =
      Submit({.tokens_of_runs = {11}, .group_workspace_bytes = 20}, reader_);
  EXPECT_EQ(Steps(4), "400:0 11:0 11:1 400:1");
  EXPECT_EQ(Next(), "10:0");
}

TEST_F(WavesSetAsideTest, SetsAWaveAsideForOneOfAnotherModel) {
  StartLayers();
  auto large = SubmitRun(400);
  EXPECT_EQ(Next(), "400:0");
  auto small = SubmitRun(10, "other");
  EXPECT_EQ(Steps(1), "400:0");
  EXPECT_EQ(stage_.AwaitStep().rows[0].plan->model, "other");
}

TEST_F(WavesSetAsideTest, LetsTokensComeBetweenTheLayersOfPrompts) {
  StartLayers();
  Reader reader;
  auto generating = Submit(
      {.tokens_of_runs = {3}, .max_tokens = 3, .layer_count = 2}, reader);
  EXPECT_EQ(Steps(1), "3:0");
  DeliverAll(stage_.AwaitStep().rows[0]);
  auto prompts =
      Submit({.tokens_of_runs = {400, 400}, .layer_count = 4}, reader_);
  stage_.Complete({{.goes_on = true}});
  EXPECT_EQ(Steps(1), "400:0");
  EXPECT_EQ(GenerateOn(), "3:0 3:1");
  EXPECT_EQ(Steps(1), "400:1");
  EXPECT_EQ(GenerateOn(), "3:0 3:1");
  EXPECT_EQ(Steps(1), "400:2");
}

TEST_F(WavesSetAsideTest, GivesUpAWaveThatNobodyWaitsForWhileItIsSetAside) {
  StartLayers();
  auto large =
      Submit({.tokens_of_runs = {400}, .working_bytes = 7000, .layer_count = 8},
             reader_);
  EXPECT_EQ(Next(), "400:0");
  auto small = SubmitRun(10);
  EXPECT_EQ(Steps(1), "400:0");
  EXPECT_EQ(Next(), "10:0");
  (*large)->Close();
  EXPECT_EQ(Steps(1), "10:0");
  EXPECT_EQ(Next(), "10:1");
  EXPECT_EQ(stage_.destroyed_count(), 1);
  EXPECT_EQ(scheduler_->undelivered_bytes(), 40);
  stage_.CompleteNext();
  scheduler_->Drain();
  EXPECT_EQ(stage_.destroyed_count(), 2);
}

TEST_F(WavesSetAsideTest, GivesUpTheWaveThatRunsAndGoesOnWithTheOneSetAside) {
  StartLayers();
  Reader reader;
  auto large = SubmitRun(400);
  EXPECT_EQ(Next(), "400:0");
  auto small = Submit({.tokens_of_runs = {10}, .layer_count = 8}, reader,
                      absl::Seconds(5));
  EXPECT_EQ(Steps(1), "400:0");
  EXPECT_EQ(Next(), "10:0");
  auto next = SubmitRun(20);
  clock_.Advance(absl::Seconds(6));
  EXPECT_EQ(Steps(1), "10:0");
  EXPECT_EQ(Steps(2), "400:1 20:0");
  EXPECT_EQ(std::get<TraceFailed>(reader.End(**small)).status.code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST_F(WavesSetAsideTest, KeepsAWaveThatSomebodyWaitsForWithoutWhatOthersHeld) {
  StartLayers();
  auto first = SubmitRun(10);
  EXPECT_EQ(Next(), "10:0");
  Reader reader;
  auto left =
      Submit({.tokens_of_runs = {400}, .working_bytes = 7000, .layer_count = 8},
             reader_);
  auto kept = Submit({.tokens_of_runs = {300}, .layer_count = 8}, reader);
  stage_.CompleteNext();
  EXPECT_EQ(stage_.AwaitStep().rows.size(), 2u);
  auto small = SubmitRun(20);
  EXPECT_EQ(Steps(1), "400:0");
  EXPECT_EQ(Next(), "20:0");
  (*left)->Close();
  stage_.CompleteNext();
  EXPECT_EQ(Steps(1), "400:1");
  EXPECT_EQ(Next(), "400:2");
  EXPECT_LT(scheduler_->undelivered_bytes(), 7000);
  EXPECT_EQ(stage_.CompleteNext().size(), 2u);
  std::get<TraceFinished>(reader.End(**kept));
}

TEST_F(WavesSetAsideTest, FailsARequestAtItsDeadlineWhileItsWaveIsSetAside) {
  StartLayers();
  Reader reader;
  auto large = Submit({.tokens_of_runs = {400}, .layer_count = 8}, reader,
                      absl::Seconds(5));
  EXPECT_EQ(Next(), "400:0");
  auto small = SubmitRun(10);
  EXPECT_EQ(Steps(1), "400:0");
  EXPECT_EQ(Next(), "10:0");
  clock_.Advance(absl::Seconds(6));
  EXPECT_EQ(Steps(1), "10:0");
  EXPECT_EQ(Next(), "10:1");
  EXPECT_EQ(std::get<TraceFailed>(reader.End(**large)).status.code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST_F(WavesSetAsideTest, CountsNoComputeTimeWhileAWaveIsSetAside) {
  StartLayers();
  Reader large_reader;
  Reader small_reader;
  auto large =
      Submit({.tokens_of_runs = {400}, .layer_count = 8}, large_reader);
  EXPECT_EQ(Next(), "400:0");
  clock_.Advance(absl::Seconds(1));
  auto small = Submit({.tokens_of_runs = {10}, .layer_count = 8}, small_reader);
  clock_.Advance(absl::Seconds(2));
  EXPECT_EQ(Steps(1), "400:0");
  EXPECT_EQ(Next(), "10:0");
  clock_.Advance(absl::Seconds(4));
  stage_.CompleteNext();
  EXPECT_EQ(Next(), "400:1");
  clock_.Advance(absl::Seconds(8));
  stage_.CompleteNext();
  const auto of_small = std::get<TraceFinished>(small_reader.End(**small));
  EXPECT_EQ(of_small.queue_time, absl::Seconds(2));
  EXPECT_EQ(of_small.compute_time, absl::Seconds(4));
  EXPECT_EQ(std::get<TraceFinished>(large_reader.End(**large)).compute_time,
            absl::Seconds(11));
}

TEST_F(WavesSetAsideTest, DrainsWhatIsSetAside) {
  StartLayers();
  Reader large_reader;
  Reader small_reader;
  auto large =
      Submit({.tokens_of_runs = {400}, .layer_count = 8}, large_reader);
  EXPECT_EQ(Next(), "400:0");
  auto small = Submit({.tokens_of_runs = {10}, .layer_count = 8}, small_reader);
  EXPECT_EQ(Steps(1), "400:0");
  EXPECT_EQ(Next(), "10:0");
  scheduler_->StopAccepting();
  stage_.RunFreely();
  scheduler_->Drain();
  std::get<TraceFinished>(large_reader.End(**large));
  std::get<TraceFinished>(small_reader.End(**small));
}

}  // namespace
}  // namespace phitap
