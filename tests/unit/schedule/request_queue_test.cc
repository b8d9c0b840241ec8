#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/schedule/request_queue_fixture.h"

namespace phitap {
namespace {

TEST_F(RequestQueueTest, PutsRunsOfSeveralRequestsIntoOneWaveInTurn) {
  ASSERT_TRUE(Push("a", {.tokens_of_runs = {2, 2, 2}}).ok());
  ASSERT_TRUE(Push("b", {.tokens_of_runs = {2, 2}}).ok());
  EXPECT_EQ(NextWave(100), "a0 b0 a1 b1 a2");
  EXPECT_EQ(NextWave(100), "");
}

TEST_F(RequestQueueTest, SplitsARequestLargerThanTheBudgetOverWaves) {
  ASSERT_TRUE(Push("a", {.tokens_of_runs = {4, 4, 4, 4, 4}}).ok());
  EXPECT_EQ(NextWave(8), "a0 a1");
  EXPECT_EQ(NextWave(8), "a2 a3");
  EXPECT_EQ(NextWave(8), "a4");
}

TEST_F(RequestQueueTest, LetsARunLongerThanTheBudgetGoAlone) {
  ASSERT_TRUE(Push("a", {.tokens_of_runs = {20}}).ok());
  ASSERT_TRUE(Push("b", {.tokens_of_runs = {1}}).ok());
  EXPECT_EQ(NextWave(8), "a0");
  EXPECT_EQ(NextWave(8), "b0");
}

TEST_F(RequestQueueTest, DoesNotLetAManyRunRequestStarveALaterOne) {
  ASSERT_TRUE(Push("a", {.tokens_of_runs = std::vector<int>(100, 4)}).ok());
  EXPECT_EQ(NextWave(8), "a0 a1");
  ASSERT_TRUE(Push("b", {.tokens_of_runs = {4}}).ok());
  EXPECT_EQ(NextWave(8), "a2 b0");
}

TEST_F(RequestQueueTest, DoesNotLetAManyRunRequestStarveOneOfAnotherKind) {
  ASSERT_TRUE(Push("a", {.tokens_of_runs = {4, 4, 4, 4}}).ok());
  ASSERT_TRUE(
      Push("b", {.tokens_of_runs = {4, 4}, .numerics = Numerics::kTransformers})
          .ok());
  EXPECT_EQ(NextWave(8), "a0 a1");
  EXPECT_EQ(NextWave(8), "b0");
  EXPECT_EQ(NextWave(8), "a2 a3");
  EXPECT_EQ(NextWave(8), "b1");
}

TEST_F(RequestQueueTest, DoesNotLetShortRunsStarveALongOne) {
  ASSERT_TRUE(Push("a", {.tokens_of_runs = {2, 2, 2, 2, 2, 2}}).ok());
  ASSERT_TRUE(Push("b", {.tokens_of_runs = {8}}).ok());
  EXPECT_EQ(NextWave(8), "a0 a1 a2 a3");
  EXPECT_EQ(NextWave(8), "b0");
  EXPECT_EQ(NextWave(8), "a4 a5");
}

TEST_F(RequestQueueTest, KeepsModelsAndAttentionsApart) {
  ASSERT_TRUE(Push("a", {.model = "one"}).ok());
  ASSERT_TRUE(Push("b", {.model = "two"}).ok());
  ASSERT_TRUE(Push("c", {.model = "one", .attention = Attention::kEager}).ok());
  ASSERT_TRUE(Push("d", {.model = "one"}).ok());
  EXPECT_EQ(NextWave(100), "a0 d0");
  EXPECT_EQ(NextWave(100), "b0");
  EXPECT_EQ(NextWave(100), "c0");
}

TEST_F(RequestQueueTest, GivesEachTransformersRunAWaveOfItsOwn) {
  const SmallPlan alone = {.tokens_of_runs = {1, 1},
                           .numerics = Numerics::kTransformers};
  ASSERT_TRUE(Push("a", alone).ok());
  ASSERT_TRUE(Push("b", alone).ok());
  EXPECT_EQ(NextWave(100), "a0");
  EXPECT_EQ(NextWave(100), "b0");
  EXPECT_EQ(NextWave(100), "a1");
  EXPECT_EQ(NextWave(100), "b1");
}

TEST_F(RequestQueueTest, KeepsAnIsolatedRequestAmongItsOwnRuns) {
  ASSERT_TRUE(Push("a", {.tokens_of_runs = {1}}).ok());
  ASSERT_TRUE(Push("b", {.tokens_of_runs = {1, 1}, .isolate = true}).ok());
  ASSERT_TRUE(Push("c", {.tokens_of_runs = {1}}).ok());
  EXPECT_EQ(NextWave(100), "a0 c0");
  EXPECT_EQ(NextWave(100), "b0 b1");
}

TEST_F(RequestQueueTest, PutsTheRunsOfAGroupIntoOneWave) {
  ASSERT_TRUE(Push("a", {.tokens_of_runs = {3, 3, 3},
                         .groups = {{.runs = {0, 2}}, {.runs = {1}}}})
                  .ok());
  EXPECT_EQ(NextWave(8), "a0 a2");
  EXPECT_EQ(NextWave(8), "a1");
}

TEST_F(RequestQueueTest, LetsAGroupLargerThanTheBudgetGoAlone) {
  ASSERT_TRUE(
      Push("a", {.tokens_of_runs = {5, 5}, .groups = {{.runs = {0, 1}}}}).ok());
  ASSERT_TRUE(Push("b", {.tokens_of_runs = {1}}).ok());
  EXPECT_EQ(NextWave(8), "a0 a1");
  EXPECT_EQ(NextWave(8), "b0");
}

TEST_F(RequestQueueTest, WaitsForTheGroupsThatComeBefore) {
  ASSERT_TRUE(Push("a", {.tokens_of_runs = {1, 1, 1},
                         .groups = {{.runs = {0}},
                                    {.runs = {1}},
                                    {.runs = {2}, .after = {0, 1}}}})
                  .ok());
  EXPECT_EQ(NextWave(8), "a0 a1");
  EXPECT_EQ(queue_->size(), 0);
  End();
  EXPECT_EQ(NextWave(8), "a2");
}

TEST_F(RequestQueueTest, GivesAGradientAWaveOfItsOwn) {
  ASSERT_TRUE(Push("a", {.tokens_of_runs = {1, 1},
                         .groups = {{.runs = {0}},
                                    {.runs = {0}, .gradient_pass = 0},
                                    {.runs = {1}}}})
                  .ok());
  ASSERT_TRUE(Push("b", {}).ok());
  EXPECT_EQ(NextWave(8), "a0 b0 a1");
  EXPECT_EQ(NextWave(8), "a0");
  EXPECT_EQ(wave_.entries[0].pass.group, 1);
}

TEST_F(RequestQueueTest, SharesWavesAmongRunsThatGenerate) {
  ASSERT_TRUE(Push("a", {.tokens_of_runs = {6}}).ok());
  ASSERT_TRUE(Push("b", {.tokens_of_runs = {2}}).ok());
  EXPECT_EQ(NextWave(8), "a0 b0");
  GenerateOn();
  EXPECT_EQ(NextWave(2), "a0 b0");
}

TEST_F(RequestQueueTest, KeepsPromptsOutOfTheWavesOfTokens) {
  ASSERT_TRUE(Push("a", {.tokens_of_runs = {1}}).ok());
  EXPECT_EQ(NextWave(8), "a0");
  GenerateOn();
  ASSERT_TRUE(Push("b", {.tokens_of_runs = {1}}).ok());
  EXPECT_EQ(NextWave(8), "a0");
  EXPECT_EQ(NextWave(8), "b0");
}

TEST_F(RequestQueueTest, DoesNotLetPromptsStarveATokenNorTheOtherWayRound) {
  ASSERT_TRUE(Push("a", {.tokens_of_runs = {1}}).ok());
  EXPECT_EQ(NextWave(8), "a0");
  GenerateOn();
  ASSERT_TRUE(Push("b", {.tokens_of_runs = std::vector<int>(9, 8)}).ok());
  for (int turn = 0; turn < 3; ++turn) {
    EXPECT_EQ(NextWave(8), "a0");
    GenerateOn();
    EXPECT_EQ(NextWave(8), absl::StrCat("b", turn));
  }
}

TEST_F(RequestQueueTest, TurnsBetweenTheGroupsOfARequest) {
  ASSERT_TRUE(Push("a", {.tokens_of_runs = {2, 8, 2}}).ok());
  EXPECT_EQ(NextWave(8), "a0");
  GenerateOn();
  EXPECT_EQ(NextWave(8), "a1");
  EXPECT_EQ(NextWave(8), "a2");
  EXPECT_EQ(NextWave(8), "a0");
}

TEST_F(RequestQueueTest, PutsBackWhatItAcceptedEvenWhereItIsFull) {
  ASSERT_TRUE(Push("a", {}).ok());
  NextWave(8);
  for (const char* name : {"b", "c", "d", "e"}) {
    ASSERT_TRUE(Push(name, {}).ok());
  }
  GenerateOn();
  EXPECT_EQ(queue_->size(), 5);
}

TEST_F(RequestQueueTest, DoesNotPutBackARequestThatIsOver) {
  ASSERT_TRUE(Push("a", {}).ok());
  NextWave(8);
  streams_["a"]->Close();
  GenerateOn();
  EXPECT_EQ(queue_->size(), 0);
}

TEST_F(RequestQueueTest, HandsOverWhatItDropped) {
  ASSERT_TRUE(Push("a", {}).ok());
  ASSERT_TRUE(Push("b", {}).ok());
  streams_["a"]->Close();
  queue_->DropOver();
  const auto dropped = queue_->TakeDropped();
  ASSERT_EQ(dropped.size(), 1u);
  EXPECT_EQ(dropped[0]->stream, streams_["a"]);
  EXPECT_TRUE(queue_->TakeDropped().empty());
}

TEST_F(RequestQueueTest, RefusesWhenFullAndSaysHowFull) {
  for (const char* name : {"a", "b", "c", "d"}) {
    ASSERT_TRUE(Push(name, {}).ok());
  }
  const absl::Status status = Push("e", {});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              ::testing::HasSubstr("4 of at most 4"));
  EXPECT_EQ(NextWave(100), "a0 b0 c0 d0");
  EXPECT_TRUE(Push("f", {}).ok());
}

TEST_F(RequestQueueTest, MakesRoomByDroppingTheCancelled) {
  for (const char* name : {"a", "b", "c", "d"}) {
    ASSERT_TRUE(Push(name, {}).ok());
  }
  streams_["b"]->Close();
  EXPECT_TRUE(Push("e", {}).ok());
  EXPECT_EQ(NextWave(100), "a0 c0 d0 e0");
}

TEST_F(RequestQueueTest, DropsAndFailsTheExpired) {
  deadline_ = absl::Seconds(5);
  ASSERT_TRUE(Push("a", {}).ok());
  deadline_ = absl::Seconds(50);
  ASSERT_TRUE(Push("b", {}).ok());
  clock_.Advance(absl::Seconds(5));
  queue_->DropOver();
  EXPECT_EQ(NextWave(100), "b0");
  std::optional<StreamEvent> event = streams_["a"]->Pull();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(std::get<TraceFailed>(*event).status.code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST_F(RequestQueueTest, TellsEachRequestHowManyAreAhead) {
  ASSERT_TRUE(Push("a", {}).ok());
  ASSERT_TRUE(Push("b", {.report_progress = true}).ok());
  queue_->TellPositions(3);
  std::optional<StreamEvent> event = streams_["b"]->Pull();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(std::get<ProgressMade>(*event).queue_position, 4);
}

}  // namespace
}  // namespace phitap
