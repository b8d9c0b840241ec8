#include "server/schedule/request_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/support/manual_clock.h"
#include "tests/support/small_plans.h"

namespace phitap {
namespace {

class RequestQueueTest : public ::testing::Test {
 protected:
  // The caller is the one of caller_.
  absl::Status Push(const std::string& name, const SmallPlan& small) {
    auto trace = std::make_shared<AcceptedTrace>(MakePlan(small));
    trace->caller = caller_;
    trace->stream = std::make_shared<ResultStream>(
        ResultStreamOptions{.plan = trace->plan,
                            .deadline = clock_.Now() + deadline_,
                            .clock = &clock_,
                            .wake = [] {}});
    streams_[name] = trace->stream;
    names_[trace.get()] = name;
    return queue_->Push(std::move(trace));
  }

  // The next wave, e.g. "a0 b0 a1".
  std::string NextWave(int64_t max_tokens) {
    wave_ = queue_->TakeWave({.max_tokens = max_tokens});
    std::vector<std::string> entries;
    for (const WaveEntry& entry : wave_.entries) {
      for (int run : entry.pass.runs) {
        entries.push_back(absl::StrCat(names_[entry.trace.get()], run));
      }
    }
    return absl::StrJoin(entries, " ");
  }

  // Lets every run of the wave go on to its next token.
  void GenerateOn() {
    for (const WaveEntry& entry : wave_.entries) {
      entry.trace->groups.GoOn(entry.pass.group, entry.pass.runs);
    }
    queue_->PutBack(wave_);
  }
  // Lets every group of the wave end.
  void End() {
    for (const WaveEntry& entry : wave_.entries) {
      entry.trace->groups.EndWell(entry.pass.group);
    }
    queue_->PutBack(wave_);
  }

  ManualClock clock_;
  std::string caller_ = "ann";
  absl::Duration deadline_ = absl::InfiniteDuration();
  std::optional<RequestQueue> queue_{
      RequestQueueLimits{.max_requests = 4, .max_caller_requests = 4}};
  GatheredWave wave_;
  std::map<std::string, std::shared_ptr<ResultStream>> streams_;
  std::map<const AcceptedTrace*, std::string> names_;
};

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

TEST_F(RequestQueueTest, LetsNoCallerHaveMoreThanItsPartOfTheQueue) {
  queue_.emplace(RequestQueueLimits{.max_requests = 4});
  ASSERT_TRUE(Push("a", {}).ok());
  ASSERT_TRUE(Push("b", {}).ok());
  const absl::Status status = Push("c", {});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              ::testing::HasSubstr("2 of at most 2"));
  caller_ = std::string("ben");
  EXPECT_TRUE(Push("d", {}).ok());
  caller_ = std::string("ann");
  EXPECT_EQ(NextWave(100), "a0 b0 d0");
  EXPECT_TRUE(Push("e", {}).ok());
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

TEST_F(RequestQueueTest, LetsHigherPrioritiesOfACallerGoFirst) {
  ASSERT_TRUE(Push("a", {.tokens_of_runs = {4, 4, 4}}).ok());
  EXPECT_EQ(NextWave(4), "a0");
  ASSERT_TRUE(Push("b", {.tokens_of_runs = {4, 4}, .priority = 3}).ok());
  ASSERT_TRUE(Push("c", {.tokens_of_runs = {4}, .priority = 7}).ok());
  EXPECT_EQ(NextWave(4), "c0");
  EXPECT_EQ(NextWave(4), "b0");
  EXPECT_EQ(NextWave(4), "b1");
  EXPECT_EQ(NextWave(8), "a1 a2");
}

TEST_F(RequestQueueTest, LetsNoPriorityGoBeforeOtherCallers) {
  ASSERT_TRUE(Push("a", {.tokens_of_runs = {4, 4, 4}, .priority = 10}).ok());
  caller_ = std::string("ben");
  ASSERT_TRUE(Push("b", {.tokens_of_runs = {4}}).ok());
  EXPECT_EQ(NextWave(4), "a0");
  EXPECT_EQ(NextWave(4), "b0");
  EXPECT_EQ(NextWave(4), "a1");
}

TEST_F(RequestQueueTest, SharesAWaveEquallyAmongCallersThatFillIt) {
  ASSERT_TRUE(Push("a", {.tokens_of_runs = std::vector<int>(99, 4096)}).ok());
  caller_ = std::string("ben");
  ASSERT_TRUE(Push("b", {.tokens_of_runs = std::vector<int>(999, 1024)}).ok());
  NextWave(16384);
  std::map<std::string, int64_t> tokens;
  for (const WaveEntry& entry : wave_.entries) {
    tokens[entry.trace->caller] +=
        static_cast<int64_t>(entry.trace->plan->runs[0].ids.size());
  }
  EXPECT_EQ(tokens["ann"], 8192);
  EXPECT_EQ(tokens["ben"], 8192);
}

TEST_F(RequestQueueTest, OwesNobodyMoreForHavingSentLargerRuns) {
  // In waves of their own, so that callers alternate wave by wave.
  const Numerics alone = Numerics::kTransformers;
  ASSERT_TRUE(Push("a", {.tokens_of_runs = std::vector<int>(200, 80000),
                         .numerics = alone})
                  .ok());
  caller_ = std::string("ben");
  ASSERT_TRUE(Push("b", {.tokens_of_runs = std::vector<int>(900, 20000),
                         .numerics = alone})
                  .ok());
  std::map<std::string, int64_t> tokens;
  for (int wave = 0; wave < 250; ++wave) {
    NextWave(8192);
    ASSERT_EQ(wave_.entries.size(), 1u);
    tokens[wave_.entries[0].trace->caller] += wave_.size.tokens;
  }
  EXPECT_LE(std::abs(tokens["ann"] - tokens["ben"]), 8192 * 32 + 80000);
}

TEST_F(RequestQueueTest, TakesOnlyWhatIsSmallEnoughWhoseverItIs) {
  ASSERT_TRUE(Push("a", {.tokens_of_runs = {50}}).ok());
  ASSERT_TRUE(Push("b", {.tokens_of_runs = {5, 4}}).ok());
  caller_ = std::string("ben");
  ASSERT_TRUE(Push("c", {.tokens_of_runs = {3}}).ok());
  wave_ = queue_->TakeWave({.max_tokens = 100, .max_token_layers = 16});
  ASSERT_EQ(wave_.entries.size(), 2u);
  EXPECT_EQ(names_[wave_.entries[0].trace.get()], "b");
  EXPECT_EQ(names_[wave_.entries[1].trace.get()], "c");
  EXPECT_EQ(wave_.size.token_layers, 16);
  EXPECT_EQ(NextWave(100), "a0 b1");
}

TEST_F(RequestQueueTest, LeavesTheTokensOfARequestBeTakenBeforeItsPrompts) {
  ASSERT_TRUE(Push("a", {.tokens_of_runs = {2, 50, 50}}).ok());
  EXPECT_EQ(NextWave(2), "a0");
  GenerateOn();
  wave_ = queue_->TakeWave({.max_token_layers = 2});
  ASSERT_EQ(wave_.entries.size(), 1u);
  EXPECT_EQ(wave_.entries[0].pass.phase, PassPhase::kToken);
}

TEST_F(RequestQueueTest, CountsOnceWhatRunsOfARequestShare) {
  ASSERT_TRUE(
      Push("a", {.tokens_of_runs = {10, 10, 10, 10}, .own_token_count = 1})
          .ok());
  EXPECT_EQ(NextWave(12), "a0 a1 a2");
  EXPECT_EQ(wave_.size.tokens, 12);
  EXPECT_EQ(NextWave(12), "a3");
}

TEST_F(RequestQueueTest, CountsWhatAWaveWorksIn) {
  ASSERT_TRUE(Push("a", {.tokens_of_runs = {2, 2, 2},
                         .group_workspace_bytes = 10,
                         .common_workspace_bytes = 5})
                  .ok());
  ASSERT_TRUE(
      Push("b", {.tokens_of_runs = {2}, .group_workspace_bytes = 7}).ok());
  wave_ = queue_->TakeWave({.max_joined_bytes = 40});
  EXPECT_EQ(wave_.entries.size(), 3u);
  EXPECT_EQ(wave_.size.workspace_bytes, 5 + 10 + 7 + 10);
  // A single one may take more, but never more than there is.
  EXPECT_TRUE(queue_->TakeWave({.max_workspace_bytes = 14}).empty());
  wave_ = queue_->TakeWave({.max_joined_bytes = 1, .max_workspace_bytes = 15});
  EXPECT_EQ(wave_.size.workspace_bytes, 15);
}

TEST_F(RequestQueueTest, CountsLessForATokenThanForItsPrompt) {
  ASSERT_TRUE(
      Push("a", {.tokens_of_runs = {4}, .group_workspace_bytes = 80}).ok());
  NextWave(8);
  EXPECT_EQ(wave_.size.workspace_bytes, 80);
  GenerateOn();
  NextWave(8);
  EXPECT_EQ(wave_.size.workspace_bytes, 20);
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
