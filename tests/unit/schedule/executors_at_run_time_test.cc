// Executors that come and go while others compute.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/schedule/errands.h"
#include "server/schedule/executor_table.h"
#include "tests/unit/schedule/scheduler_fixture.h"

namespace phitap {
namespace {

class ExecutorsAtRunTime : public SchedulerTest {};

TEST_F(ExecutorsAtRunTime, OneThatIsAddedTakesRequests) {
  Start({});
  Reader reader;
  EXPECT_EQ(Submit({.model = "new"}, reader).status().code(),
            absl::StatusCode::kAborted);
  scheduler_->AddExecutor("new", std::make_unique<PuppetExecutor>(&stage_));
  auto stream = Submit({.model = "new"}, reader);
  ASSERT_TRUE(stream.ok());
  stage_.CompleteNext();
  std::get<TraceFinished>(reader.End(**stream));
}

TEST_F(ExecutorsAtRunTime, OneThatIsIdleIsRemovedAtOnce) {
  Start({});
  scheduler_->RemoveExecutor("tiny");
  scheduler_->RemoveExecutor("tiny");
  Reader reader;
  EXPECT_EQ(Submit({}, reader).status().code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(Submit({.model = "other"}, reader).ok());
}

TEST_F(ExecutorsAtRunTime, OneIsRemovedOnceItsRequestsHaveEnded) {
  Start({});
  Reader reader;
  auto running = Submit({}, reader);
  stage_.Await();
  auto queued = Submit({}, reader);
  EXPECT_EQ(scheduler_->requests_of("tiny"), 2);
  EXPECT_EQ(scheduler_->requests_of("other"), 0);
  auto removed = std::async([&] { scheduler_->RemoveExecutor("tiny"); });
  while (Submit({}, reader).status().code() != absl::StatusCode::kAborted) {
    std::this_thread::yield();
  }
  EXPECT_EQ(removed.wait_for(std::chrono::seconds(0)),
            std::future_status::timeout);
  stage_.RunFreely();
  removed.get();
  EXPECT_EQ(scheduler_->requests_of("tiny"), 0);
  std::get<TraceFinished>(reader.End(**running));
  std::get<TraceFinished>(reader.End(**queued));
}

TEST_F(ExecutorsAtRunTime, OneWhoseRequestsAreCancelledIsRemoved) {
  Start({});
  Reader reader;
  auto running = Submit({.model = "other"}, reader);
  stage_.Await();
  auto queued = Submit({}, reader);
  (*queued)->Close();
  auto removed = std::async([&] { scheduler_->RemoveExecutor("tiny"); });
  stage_.CompleteNext();
  removed.get();
}

TEST_F(ExecutorsAtRunTime, DrainingEndsAWaitForTheRequestsOfOne) {
  Start({});
  Reader reader;
  auto running = Submit({}, reader);
  stage_.Await();
  auto removed = std::async([&] { scheduler_->RemoveExecutor("tiny"); });
  scheduler_->StopAccepting();
  stage_.RunFreely();
  removed.get();
  scheduler_->Drain();
}

TEST_F(ExecutorsAtRunTime, ErrandsAreRunBetweenTheStepsOfAWave) {
  Start({}, PuppetSteps::kLayers);
  Reader reader;
  // Of more steps than the errand's thread can take to ask.
  auto stream = Submit({.layer_count = 10'000'000}, reader);
  stage_.AwaitStep();
  std::atomic<bool> ran = false;
  auto errand = std::async(
      [&] { return scheduler_->RunBetweenSteps([&] { ran = true; }); });
  EXPECT_FALSE(ran);
  while (!ran) {
    ASSERT_FALSE(stage_.AwaitStep().last);
    stage_.Advance();
  }
  EXPECT_TRUE(errand.get().ok());
  (*stream)->Close();
}

TEST_F(ExecutorsAtRunTime, OnceItHasStoppedTheServerSaysSo) {
  Start({});
  scheduler_->Drain();
  Reader reader;
  EXPECT_EQ(Submit({}, reader).status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(ExecutorsAtRunTime, ErrandsAreRunWhereNothingIsComputed) {
  Start({});
  std::thread::id ran_on;
  EXPECT_TRUE(
      scheduler_->RunBetweenSteps([&] { ran_on = std::this_thread::get_id(); })
          .ok());
  EXPECT_NE(ran_on, std::this_thread::get_id());
}

TEST_F(ExecutorsAtRunTime, ErrandsAreRefusedOnceTheServerHasStopped) {
  Start({});
  scheduler_->Drain();
  EXPECT_EQ(scheduler_->RunBetweenSteps([] { FAIL(); }).code(),
            absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace phitap
