#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "tests/unit/schedule/scheduler_fixture.h"

namespace phitap {
namespace {

class GroupPassesTest : public SchedulerTest {};

TEST_F(GroupPassesTest, FailsTheGroupsAfterARunThatFailsAndComputesTheOthers) {
  Start({});
  Reader reader;
  auto stream = Submit({.tokens_of_runs = {1, 2, 3, 4},
                        .groups = {{.runs = {0}},
                                   {.runs = {1}},
                                   {.runs = {2}, .after = {0}},
                                   {.runs = {3}, .after = {2}}}},
                       reader);
  const std::vector<WaveRun> rows = stage_.Await();
  ASSERT_EQ(rows.size(), 2u);
  DeliverAll(rows[1]);
  stage_.Complete({{.status = absl::InternalError("boom")}, {}});
  const auto finished = std::get<TraceFinished>(reader.End(**stream));
  const absl::Status lost = absl::FailedPreconditionError(
      "run 0, which this run reads, failed: boom");
  EXPECT_THAT(finished.run_statuses,
              ::testing::ElementsAre(absl::InternalError("boom"),
                                     absl::OkStatus(), lost, lost));
}

TEST_F(GroupPassesTest, CancelsTheGroupsAfterARunThatWasCancelled) {
  Start({});
  Reader reader;
  auto stream = Submit({.tokens_of_runs = {1, 2},
                        .groups = {{.runs = {0}}, {.runs = {1}, .after = {0}}}},
                       reader);
  stage_.Await();
  stage_.Complete({{.status = absl::CancelledError("dropped")}});
  const auto finished = std::get<TraceFinished>(reader.End(**stream));
  EXPECT_EQ(finished.run_statuses[1].code(), absl::StatusCode::kCancelled);
}

TEST_F(GroupPassesTest, ComputesAGroupOnceTheOneBeforeHasEnded) {
  Start({});
  Reader reader;
  auto stream = Submit({.tokens_of_runs = {1, 2},
                        .groups = {{.runs = {0}}, {.runs = {1}, .after = {0}}}},
                       reader);
  EXPECT_EQ(stage_.CompleteNext()[0].run, 0);
  EXPECT_EQ(stage_.CompleteNext()[0].run, 1);
  std::get<TraceFinished>(reader.End(**stream));
  EXPECT_EQ(reader.tensor_count, 2);
}

TEST_F(GroupPassesTest, RunsAGroupAgainWhileItGenerates) {
  Start({});
  Reader reader;
  auto stream = Submit(
      {.tokens_of_runs = {3, 4}, .groups = {{.runs = {0, 1}}}, .max_tokens = 3},
      reader);
  for (const WaveRun& row : stage_.Await()) DeliverAll(row);
  stage_.Complete({{.goes_on = true}, {.goes_on = true}});
  EXPECT_EQ(stage_.Await().size(), 2u);
  stage_.Complete({{.finish_reason = FinishReason::kStop}, {.goes_on = true}});
  const std::vector<WaveRun> last = stage_.Await();
  ASSERT_EQ(last.size(), 1u);
  EXPECT_EQ(last[0].run, 1);
  stage_.Complete({{.finish_reason = FinishReason::kLength}});
  const auto finished = std::get<TraceFinished>(reader.End(**stream));
  EXPECT_THAT(
      finished.finish_reasons,
      ::testing::ElementsAre(FinishReason::kStop, FinishReason::kLength));
}

TEST_F(GroupPassesTest, AFailedGenerationFailsWhatReadsItOnceItsGroupHasEnded) {
  Start({});
  Reader reader;
  auto stream =
      Submit({.tokens_of_runs = {1, 1, 1},
              .groups = {{.runs = {0, 1}}, {.runs = {2}, .after = {0}}},
              .max_tokens = 3},
             reader);
  for (const WaveRun& row : stage_.Await()) DeliverAll(row);
  stage_.Complete({{.status = absl::InternalError("boom")}, {.goes_on = true}});
  stage_.Await();
  stage_.Complete({{.finish_reason = FinishReason::kStop}});
  const auto finished = std::get<TraceFinished>(reader.End(**stream));
  EXPECT_EQ(finished.run_statuses[0], absl::InternalError("boom"));
  EXPECT_TRUE(finished.run_statuses[1].ok());
  EXPECT_EQ(finished.run_statuses[2].code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(GroupPassesTest, RunsAGradientAfterItsRunAndLetsItsErrorCount) {
  Start({});
  Reader reader;
  auto stream =
      Submit({.tokens_of_runs = {2, 2},
              .groups = {{.runs = {0}},
                         {.runs = {1}},
                         {.runs = {0}, .after = {0}, .gradient_pass = 0}}},
             reader);
  EXPECT_EQ(stage_.CompleteNext().size(), 2u);
  const std::vector<WaveRun> rows = stage_.Await();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].gradient_pass, 0);
  EXPECT_FALSE(rows[0].sink->Cancelled(0));
  stage_.Complete({{.status = absl::ResourceExhaustedError("graph")}});
  EXPECT_THAT(std::get<TraceFinished>(reader.End(**stream)).run_statuses,
              ::testing::ElementsAre(absl::ResourceExhaustedError("graph"),
                                     absl::OkStatus()));
}

TEST_F(GroupPassesTest, AGradientLeavesTheReasonForWhichItsRunEnded) {
  Start({});
  Reader reader;
  auto stream =
      Submit({.tokens_of_runs = {2},
              .groups = {{.runs = {0}},
                         {.runs = {0}, .after = {0}, .gradient_pass = 0}}},
             reader);
  for (const WaveRun& row : stage_.Await()) DeliverAll(row);
  stage_.Complete({{.finish_reason = FinishReason::kStop}});
  stage_.Await();
  stage_.Complete({{}});
  EXPECT_THAT(std::get<TraceFinished>(reader.End(**stream)).finish_reasons,
              ::testing::ElementsAre(FinishReason::kStop));
}

}  // namespace
}  // namespace phitap
