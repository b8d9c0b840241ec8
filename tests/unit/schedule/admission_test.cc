#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "server/base/retry_hint.h"
#include "tests/unit/schedule/scheduler_fixture.h"

namespace phitap {
namespace {

using ::testing::HasSubstr;

class AdmissionTest : public SchedulerTest {};

TEST_F(AdmissionTest, RefusesWhenTheQueueIsFullAndGivesTheBytesBack) {
  Start({.queue = {.max_requests = 1}});
  Reader reader;
  auto running = Submit({}, reader);
  stage_.Await();
  auto queued = Submit({}, reader);
  const int64_t reserved = scheduler_->undelivered_bytes();
  const absl::Status refused = Submit({}, reader).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("1 of at most 1"));
  EXPECT_EQ(scheduler_->undelivered_bytes(), reserved);
}

TEST_F(AdmissionTest, RefusesForNowWhatDoesNotFitBesideTheUndelivered) {
  Start({.memory = {.max_undelivered_bytes = 100, .max_caller_bytes = 100}});
  Reader reader;
  auto first = Submit({.tokens_of_runs = {20}}, reader);
  ASSERT_TRUE(first.ok());
  const absl::Status refused = Submit({.tokens_of_runs = {6}}, reader).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(RetryHintOf(refused), absl::Seconds(1));
  EXPECT_THAT(std::string(refused.message()),
              ::testing::EndsWith("; try again in 1s"));
  stage_.CompleteNext();
  (*first)->ReleaseBytes(80);
  EXPECT_TRUE(Submit({.tokens_of_runs = {6}}, reader).ok());
}

TEST_F(AdmissionTest, RefusesForGoodWhatCanNeverFit) {
  Start({.memory = {.max_undelivered_bytes = 100}});
  Reader reader;
  // One caller has half of it.
  const absl::Status refused =
      Submit({.tokens_of_runs = {5}, .working_bytes = 31}, reader).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()),
              ::testing::AllOf(HasSubstr("needs 51 bytes"),
                               HasSubstr("at most 50 of the 100")));
  EXPECT_EQ(RetryHintOf(refused), std::nullopt);
  EXPECT_TRUE(
      Submit({.tokens_of_runs = {5}, .working_bytes = 30}, reader).ok());
}

TEST_F(AdmissionTest, LeavesRoomForOtherCallersWhereOneDoesNotRead) {
  Start({.memory = {.max_undelivered_bytes = 100}});
  Reader reader;
  auto unread = Submit({.tokens_of_runs = {10}}, reader);
  stage_.CompleteNext();
  EXPECT_EQ(Submit({}, reader).status().code(), absl::StatusCode::kUnavailable);
  caller_ = std::string("ben");
  EXPECT_TRUE(Submit({}, reader).ok());
}

TEST_F(AdmissionTest, HintsAtTheTimeThatRequestsTake) {
  Start({.queue = {.max_requests = 1}});
  Reader reader;
  for (int i = 0; i < 60; ++i) {
    auto stream = Submit({}, reader);
    stage_.Await();
    clock_.Advance(absl::Seconds(5));
    stage_.CompleteNext();
    std::get<TraceFinished>(reader.End(**stream));
  }
  auto running = Submit({}, reader);
  stage_.Await();
  auto queued = Submit({}, reader);
  const std::optional<absl::Duration> hint =
      RetryHintOf(Submit({}, reader).status());
  ASSERT_TRUE(hint.has_value());
  EXPECT_GT(*hint, absl::Milliseconds(4990));
  EXPECT_LE(*hint, absl::Seconds(5));
}

TEST_F(AdmissionTest, HintsAtNoRetryOnceItIsStopping) {
  Start({});
  scheduler_->StopAccepting();
  Reader reader;
  const absl::Status refused = Submit({}, reader).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(RetryHintOf(refused), std::nullopt);
}

TEST_F(AdmissionTest, RefusesForGoodWhatCannotBeComputedIn) {
  Start({.memory = {.max_workspace_bytes = 100}});
  Reader reader;
  const absl::Status refused =
      Submit({.group_workspace_bytes = 61, .common_workspace_bytes = 40},
             reader)
          .status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(
      std::string(refused.message()),
      ::testing::AllOf(HasSubstr("101 bytes"), HasSubstr("at most 100")));
  EXPECT_TRUE(
      Submit({.group_workspace_bytes = 60, .common_workspace_bytes = 40},
             reader)
          .ok());
}

TEST_F(AdmissionTest, AsksForItsLimitsOnceTheModelsAreLoaded) {
  bool loaded = false;
  auto scheduler = Scheduler::Start(
      {.decide_memory =
           [&] {
             return MemoryLimits{.max_undelivered_bytes = loaded ? 100 : 50};
           },
       .clock = &clock_},
      [&]() -> absl::StatusOr<ExecutorMap> {
        loaded = true;
        return ExecutorMap();
      });
  ASSERT_TRUE(scheduler.ok());
  EXPECT_EQ((*scheduler)->memory().max_undelivered_bytes, 100);
  EXPECT_EQ((*scheduler)->memory().max_caller_bytes, 50);
}

TEST_F(AdmissionTest, HoldsWorkingBytesUntilAllIsComputed) {
  Start({});
  Reader reader;
  auto stream = Submit({.tokens_of_runs = {2}, .working_bytes = 100}, reader);
  stage_.Await();
  EXPECT_EQ(scheduler_->undelivered_bytes(), 108);
  stage_.CompleteNext();
  std::get<TraceFinished>(reader.End(**stream));
  EXPECT_EQ(scheduler_->undelivered_bytes(), 8);
}

TEST_F(AdmissionTest, RefusesAPlanWithoutGroups) {
  Start({});
  auto plan = std::make_shared<TracePlan>(*MakePlan({}));
  plan->groups.clear();
  EXPECT_EQ(scheduler_->Submit({.plan = plan}).status().code(),
            absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace phitap
