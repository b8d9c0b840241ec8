#include "server/schedule/wave_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <string>
#include <variant>

#include "tests/unit/schedule/scheduler_fixture.h"

namespace phitap {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class CountedWavesTest : public SchedulerTest {
 protected:
  // The compute thread counts until it has ended.
  ~CountedWavesTest() override {
    stage_.RunFreely();
    scheduler_.reset();
  }

  void StartCounted() {
    Start({.max_wave_tokens = 10000, .metrics = &metrics_},
          PuppetSteps::kLayers);
  }
  std::string Text() const {
    return prometheus::TextSerializer().Serialize(metrics_.Collect());
  }

  Metrics metrics_;
};

TEST_F(CountedWavesTest, CountTokensStepsAndTime) {
  StartCounted();
  Reader reader;
  auto stream = Submit({.tokens_of_runs = {12}, .layer_count = 3}, reader);
  stage_.AwaitStep();
  clock_.Advance(absl::Seconds(2));
  stage_.CompleteNext();
  EXPECT_TRUE(std::holds_alternative<TraceFinished>(reader.End(**stream)));
  const std::string text = Text();
  EXPECT_THAT(
      text,
      AllOf(HasSubstr("phitap_wave_tokens_sum{model=\"tiny\",phase=\"prompt\"} "
                      "12\n"),
            HasSubstr("phitap_wave_tokens_count{model=\"tiny\",phase="
                      "\"gradient\"} 0\n"),
            HasSubstr("phitap_wave_steps_total{model=\"tiny\"} 3\n"),
            HasSubstr("phitap_waves_set_aside_total{model=\"tiny\"} 0\n"),
            HasSubstr("phitap_compute_seconds_total{model=\"tiny\"} 2\n"),
            HasSubstr("phitap_queue_wait_seconds_count{model=\"tiny\"} 1\n")));
}

TEST_F(CountedWavesTest, CountHowLongARequestWaitedAndThatAWaveWasSetAside) {
  StartCounted();
  Reader first;
  Reader second;
  auto large = Submit({.tokens_of_runs = {400}, .layer_count = 8}, first);
  stage_.AwaitStep();
  auto small = Submit(
      {.model = "other", .tokens_of_runs = {10}, .layer_count = 1}, second);
  clock_.Advance(absl::Seconds(7));
  stage_.StepNext();
  stage_.AwaitStep();
  const std::string text = Text();
  EXPECT_THAT(text,
              HasSubstr("phitap_queue_wait_seconds_sum{model=\"other\"} 7\n"));
  EXPECT_THAT(text,
              HasSubstr("phitap_waves_set_aside_total{model=\"tiny\"} 1\n"));
  stage_.RunFreely();
  first.End(**large);
  second.End(**small);
}

TEST_F(CountedWavesTest, TheEngineTellsWhoHasWhat) {
  StartCounted();
  Reader first;
  Reader second;
  caller_ = "ada";
  auto running = Submit({.tokens_of_runs = {400}, .layer_count = 8}, first);
  stage_.AwaitStep();
  caller_ = "bob";
  auto waiting = Submit({.tokens_of_runs = {300}, .layer_count = 8}, second);
  const EngineActivity activity = scheduler_->activity();
  EXPECT_EQ(activity.callers.at("ada").running_requests, 1);
  EXPECT_EQ(activity.callers.at("ada").queued_requests, 0);
  EXPECT_EQ(activity.callers.at("bob").running_requests, 0);
  EXPECT_EQ(activity.callers.at("bob").queued_requests, 1);
  EXPECT_EQ(activity.queued_requests(), 1);
  EXPECT_EQ(activity.running_requests(), 1);
  EXPECT_EQ(activity.waves.count, 1);
  EXPECT_EQ(activity.waves.tokens, 400);
  EXPECT_EQ(activity.undelivered_bytes, scheduler_->undelivered_bytes());
  stage_.RunFreely();
  first.End(**running);
  second.End(**waiting);
  EXPECT_EQ(scheduler_->activity().queued_requests(), 0);
}

}  // namespace
}  // namespace phitap
