#include "server/schedule/request_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
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
  absl::Status Push(const std::string& name, const SmallPlan& small) {
    auto trace = std::make_shared<AcceptedTrace>();
    trace->plan = MakePlan(small);
    trace->stream = std::make_shared<ResultStream>(
        ResultStreamOptions{.plan = trace->plan,
                            .deadline = clock_.Now() + deadline_,
                            .clock = &clock_,
                            .wake = [] {}});
    streams_[name] = trace->stream;
    names_[trace.get()] = name;
    return queue_.Push(std::move(trace));
  }

  // The next wave, e.g. "a0 b0 a1".
  std::string NextWave(int64_t max_tokens) {
    std::vector<std::string> entries;
    for (const WaveEntry& entry : queue_.TakeWave(max_tokens)) {
      entries.push_back(absl::StrCat(names_[entry.trace.get()], entry.run));
    }
    return absl::StrJoin(entries, " ");
  }

  ManualClock clock_;
  absl::Duration deadline_ = absl::InfiniteDuration();
  RequestQueue queue_{4};
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
  queue_.DropOver();
  EXPECT_EQ(NextWave(100), "b0");
  std::optional<StreamEvent> event = streams_["a"]->Pull();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(std::get<TraceFailed>(*event).status.code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST_F(RequestQueueTest, TellsEachRequestHowManyAreAhead) {
  ASSERT_TRUE(Push("a", {}).ok());
  ASSERT_TRUE(Push("b", {.report_progress = true}).ok());
  queue_.TellPositions(3);
  std::optional<StreamEvent> event = streams_["b"]->Pull();
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(std::get<ProgressMade>(*event).queue_position, 4);
}

}  // namespace
}  // namespace phitap
