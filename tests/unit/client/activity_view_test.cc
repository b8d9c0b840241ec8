#include "client/cli/activity_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "client/cli/text_width.h"

namespace phitap::cli {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

v1::WatchActivityResponse Seen(int64_t uptime_s) {
  v1::WatchActivityResponse seen;
  seen.mutable_time()->set_seconds(1'700'000'000 + uptime_s);
  seen.mutable_uptime()->set_seconds(uptime_s);
  seen.set_version("0.1.0");
  return seen;
}

// A server with something of everything.
v1::WatchActivityResponse Busy(int64_t uptime_s) {
  v1::WatchActivityResponse seen = Seen(uptime_s);
  seen.set_queued_requests(3);
  seen.set_waves(2);
  seen.set_wave_tokens(512);
  seen.set_finished_requests(10 * uptime_s);
  seen.set_failed_requests(4);
  seen.set_refused_requests(7);
  seen.set_token_layers(300 * uptime_s);
  seen.set_saved_token_layers(700 * uptime_s);
  seen.set_sent_bytes(2'000'000 * uptime_s);
  v1::MemoryUse& tensors = *seen.add_memory();
  tensors.set_kind("tensors");
  tensors.set_used_bytes(500'000'000);
  tensors.set_limit_bytes(1'000'000'000);
  v1::MemoryUse& resident = *seen.add_memory();
  resident.set_kind("resident");
  resident.set_used_bytes(9'100'000'000);
  v1::ModelState& model = *seen.add_models();
  model.set_name("phi");
  model.set_status(v1::MODEL_STATUS_READY);
  model.set_weight_bytes(7'600'000'000);
  model.set_requests(4);
  *model.mutable_status_time() = seen.time();
  v1::ModelState& loading = *seen.add_models();
  loading.set_name("other");
  loading.set_status(v1::MODEL_STATUS_LOADING);
  loading.set_stage("weights");
  loading.set_progress(0.37);
  *loading.mutable_status_time() = seen.time();
  v1::CallerActivity& caller = *seen.add_callers();
  caller.set_caller("ada");
  caller.set_queued_requests(3);
  caller.set_running_requests(1);
  caller.set_undelivered_bytes(403'000'000);
  caller.set_tokens(1'200'000);
  return seen;
}

ActivityHistory HistoryOf(const std::vector<v1::WatchActivityResponse>& seen) {
  ActivityHistory history;
  for (const v1::WatchActivityResponse& one : seen) history.Add(one);
  return history;
}

TEST(ActivityRates, AreWhatHasRisenSinceTheLastLook) {
  v1::WatchActivityResponse before = Busy(100);
  v1::WatchActivityResponse now = Busy(102);
  now.set_finished_requests(before.finished_requests() + 5);
  const ActivityRates rates = RatesBetween(&before, now);
  EXPECT_DOUBLE_EQ(rates.finished, 2.5);
  EXPECT_DOUBLE_EQ(rates.failed, 0);
  EXPECT_DOUBLE_EQ(rates.sent_bytes, 2'000'000);
  EXPECT_DOUBLE_EQ(*rates.saved_share, 0.7);
}

TEST(ActivityRates, AreMeansAtTheFirstLookAndAfterARestart) {
  EXPECT_DOUBLE_EQ(RatesBetween(nullptr, Busy(50)).finished, 10);
  const v1::WatchActivityResponse before = Busy(1000);
  EXPECT_DOUBLE_EQ(RatesBetween(&before, Busy(3)).finished, 10);
}

TEST(ActivityRates, SayNothingOfWhatIsSavedWhereNothingWasAsked) {
  EXPECT_FALSE(RatesBetween(nullptr, Seen(10)).saved_share.has_value());
}

TEST(ActivityView, ShowsLoadMemoryModelsAndCallers) {
  const std::string text = RenderActivity(HistoryOf({Busy(8059), Busy(8060)}),
                                          "127.0.0.1:7777", {.width = 90});
  EXPECT_THAT(text, HasSubstr("phitap 0.1.0 at 127.0.0.1:7777, up 2 h 14 min"));
  EXPECT_THAT(
      text,
      AllOf(HasSubstr("2 waves, 512 tokens"), HasSubstr("failed 4, refused 7"),
            HasSubstr("token-layers, 70% saved"), HasSubstr("2.00 MB/s")));
  EXPECT_THAT(text, HasSubstr("500 MB of 1.00 GB   50%"));
  EXPECT_THAT(text, HasSubstr("phi    ready    7.60 GB         4    0 s"));
  EXPECT_THAT(text, HasSubstr("weights 37%"));
  EXPECT_THAT(text, HasSubstr("ada           3        1       403 MB"));
}

TEST(ActivityView, FitsIntoTheTerminal) {
  v1::WatchActivityResponse seen = Busy(1'000'000);
  seen.mutable_callers(0)->set_caller(std::string(200, 'x'));
  seen.mutable_models(0)->set_name(std::string(200, 'y'));
  seen.mutable_models(1)->set_failure(std::string(200, 'z'));
  ActivityHistory history;
  for (int i = 0; i < 200; ++i) history.Add(seen);
  for (const int width : {60, 80, 120, 200}) {
    const std::string text = RenderActivity(
        history, "host.example:7777", {.width = width, .interactive = true});
    for (const absl::string_view line : absl::StrSplit(text, '\n')) {
      EXPECT_LE(DisplayWidth(line), width) << line;
    }
  }
}

TEST(ActivityView, LetsNoNameMoveTheCursor) {
  v1::WatchActivityResponse seen = Busy(10);
  seen.mutable_callers(0)->set_caller("a\x1b[2Jb");
  EXPECT_THAT(RenderActivity(HistoryOf({seen}), "h:1", {.width = 90}),
              Not(HasSubstr("\x1b")));
}

TEST(ActivityView, GivesNoAgeToAModelThatWasNeverLoaded) {
  v1::WatchActivityResponse seen = Seen(10);
  v1::ModelState& model = *seen.add_models();
  model.set_name("phi");
  model.set_status(v1::MODEL_STATUS_AVAILABLE);
  EXPECT_THAT(RenderActivity(HistoryOf({seen}), "h:1", {.width = 90}),
              AllOf(HasSubstr("phi    available"), Not(HasSubstr(" d "))));
}

TEST(ActivityView, IsOneLineForALog) {
  const std::string line = ActivityLine(HistoryOf({Busy(10), Busy(11)}));
  EXPECT_THAT(line, AllOf(HasSubstr("waiting 3  waves 2  answered 10/s"),
                          EndsWith("resident 9.10 GB\n")));
}

TEST(MeterText, CountsInEighths) {
  EXPECT_EQ(MeterText(0, 4), "····");
  EXPECT_EQ(MeterText(1, 4), "████");
  EXPECT_EQ(MeterText(0.5, 4), "██··");
  EXPECT_EQ(MeterText(0.40625, 4), "█▋··");
  EXPECT_EQ(MeterText(7, 2), "██");
}

TEST(SparkText, IsAsHighAsTheLargest) {
  EXPECT_EQ(SparkText({0, 4, 8}, 10), " ▄█");
  EXPECT_EQ(SparkText({1, 0, 4, 8}, 2), "▄█");
  EXPECT_EQ(SparkText({0, 0}, 5), "  ");
  EXPECT_EQ(SparkText({}, 5), "");
}

TEST(AgeText, KeepsTheTwoLargestUnits) {
  EXPECT_EQ(AgeText(absl::Seconds(42)), "42 s");
  EXPECT_EQ(AgeText(absl::Minutes(9)), "9 min");
  EXPECT_EQ(AgeText(absl::Minutes(134)), "2 h 14 min");
  EXPECT_EQ(AgeText(absl::Hours(76)), "3 d 4 h");
  EXPECT_EQ(AgeText(-absl::Seconds(1)), "0 s");
}

}  // namespace
}  // namespace phitap::cli
