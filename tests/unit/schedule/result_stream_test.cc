#include "server/schedule/result_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tests/support/manual_clock.h"
#include "tests/support/small_plans.h"

namespace phitap {
namespace {

using ::testing::HasSubstr;

class ResultStreamTest : public ::testing::Test {
 protected:
  void Open(SmallPlan small) { OpenPlan(MakePlan(small)); }
  void OpenPlan(std::shared_ptr<const TracePlan> plan) {
    absl::StatusOr<ByteBudget::Reservation> reservation =
        budget_.Reserve(plan->size_bytes);
    ASSERT_TRUE(reservation.ok());
    stream_ = std::make_unique<ResultStream>(ResultStreamOptions{
        .plan = plan,
        .deadline = clock_.Now() + absl::Seconds(10),
        .clock = &clock_,
        .wake = [this] { ++wakes_; },
        .keep =
            [this](const PlannedTensor& tensor, HostTensor value) {
              kept_[tensor.kept_as] = std::move(value);
              return keep_status_;
            },
        .reservation = *std::move(reservation)});
  }

  HostTensor Floats(int64_t count) {
    return CopyOf(DType::kF32, {count},
                  std::vector<std::byte>(count * 4, std::byte{7}));
  }

  template <typename Event>
  Event PullAs() {
    std::optional<StreamEvent> event = stream_->Pull();
    EXPECT_TRUE(event.has_value());
    EXPECT_TRUE(std::holds_alternative<Event>(*event)) << event->index();
    return std::get<Event>(*std::move(event));
  }

  ManualClock clock_;
  ByteBudget budget_{{.limit_bytes = 1 << 20, .purpose = "answers"}};
  std::unique_ptr<ResultStream> stream_;
  int wakes_ = 0;
  std::map<std::string, HostTensor> kept_;
  absl::Status keep_status_;
};

// Two runs with a tensor each; the second is changed by the test.
TracePlan TwoTensors() { return *MakePlan({.tokens_of_runs = {3, 4}}); }

TEST_F(ResultStreamTest, GivesTensorsInTheOrderInWhichTheyAreMadeThenTheEnd) {
  Open({.tokens_of_runs = {3, 4}});
  stream_->Deliver(1, Floats(4));
  stream_->Deliver(0, Floats(3));
  stream_->LayerDone(0, 3);
  stream_->LayerDone(1, 4);
  stream_->EndRun(0, absl::OkStatus());
  stream_->EndRun(1, absl::OkStatus());
  stream_->Finish(absl::Seconds(1), absl::Seconds(2));

  EXPECT_EQ(PullAs<TensorReady>().tensor, 1);
  EXPECT_EQ(PullAs<TensorReady>().tensor, 0);
  const auto finished = PullAs<TraceFinished>();
  EXPECT_THAT(finished.run_statuses,
              ::testing::ElementsAre(absl::OkStatus(), absl::OkStatus()));
  EXPECT_EQ(finished.queue_time, absl::Seconds(1));
  EXPECT_EQ(finished.compute_time, absl::Seconds(2));
  EXPECT_EQ(finished.token_layers_computed, 7);
  EXPECT_FALSE(stream_->Pull().has_value());
}

TEST_F(ResultStreamTest, WakesAReaderOnceAndOnlyAfterItFoundNothing) {
  Open({.tokens_of_runs = {3, 4}});
  stream_->Deliver(0, Floats(3));
  EXPECT_EQ(wakes_, 0);
  PullAs<TensorReady>();
  EXPECT_FALSE(stream_->Pull().has_value());
  stream_->Deliver(1, Floats(4));
  EXPECT_EQ(wakes_, 1);
  stream_->EndRun(0, absl::OkStatus());
  stream_->EndRun(1, absl::OkStatus());
  stream_->Finish({}, {});
  EXPECT_EQ(wakes_, 1);
}

TEST_F(ResultStreamTest, KeepsOnlyTheLatestProgress) {
  Open({.tokens_of_runs = {3}, .report_progress = true});
  stream_->SetQueuePosition(2);
  EXPECT_EQ(PullAs<ProgressMade>().queue_position, 2);
  stream_->SetQueuePosition(0);
  stream_->LayerDone(0, 3);
  stream_->LayerDone(0, 3);
  const auto progress = PullAs<ProgressMade>();
  EXPECT_EQ(progress.queue_position, 0);
  EXPECT_EQ(progress.layers_done, 2);
  EXPECT_EQ(progress.layers_total, 2);
  EXPECT_FALSE(stream_->Pull().has_value());
}

TEST_F(ResultStreamTest, TellsNoProgressUnasked) {
  Open({.tokens_of_runs = {3}});
  stream_->SetQueuePosition(2);
  stream_->LayerDone(0, 3);
  EXPECT_FALSE(stream_->Pull().has_value());
}

TEST_F(ResultStreamTest, FailsARunWhoseValuesDidNotAllCome) {
  Open({.tokens_of_runs = {3, 4}});
  stream_->Deliver(0, Floats(3));
  stream_->EndRun(0, absl::OkStatus());
  stream_->EndRun(1, absl::OkStatus());
  stream_->Finish({}, {});
  PullAs<TensorReady>();
  const auto finished = PullAs<TraceFinished>();
  EXPECT_TRUE(finished.run_statuses[0].ok());
  EXPECT_EQ(finished.run_statuses[1].code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(finished.run_statuses[1].message()),
              HasSubstr("tensor 1 was planned and never came"));
}

TEST_F(ResultStreamTest, FailsARunWhoseValueHasAnotherSizeThanPlanned) {
  Open({.tokens_of_runs = {3, 4}});
  stream_->Deliver(0, Floats(5));
  EXPECT_TRUE(stream_->Cancelled(0));
  EXPECT_FALSE(stream_->Cancelled(1));
  stream_->EndRun(0, absl::OkStatus());
  stream_->Deliver(1, Floats(4));
  stream_->EndRun(1, absl::OkStatus());
  stream_->Finish({}, {});
  EXPECT_EQ(PullAs<TensorReady>().tensor, 1);
  const auto finished = PullAs<TraceFinished>();
  EXPECT_THAT(std::string(finished.run_statuses[0].message()),
              HasSubstr("20 bytes for 12"));
  EXPECT_TRUE(finished.run_statuses[1].ok());
}

TEST_F(ResultStreamTest, ClosingCancelsTheRunsAndFreesTheValues) {
  Open({.tokens_of_runs = {3, 4}});
  auto owner = std::make_shared<std::vector<std::byte>>(12);
  stream_->Deliver(0, {.dtype = DType::kF32,
                       .shape = {3},
                       .bytes = absl::MakeConstSpan(*owner),
                       .owner = owner});
  EXPECT_EQ(owner.use_count(), 2);
  EXPECT_FALSE(stream_->Cancelled(1));
  stream_->Close();
  EXPECT_TRUE(stream_->Cancelled(1));
  EXPECT_EQ(owner.use_count(), 1);
  EXPECT_EQ(budget_.reserved_bytes(), 0);
  stream_->Deliver(1, Floats(4));
  EXPECT_FALSE(stream_->Pull().has_value());
}

TEST_F(ResultStreamTest, CancelsTheRunsAtTheDeadline) {
  Open({.tokens_of_runs = {3}});
  clock_.Advance(absl::Seconds(9));
  EXPECT_FALSE(stream_->Cancelled(0));
  stream_->FailIfExpired();
  EXPECT_FALSE(stream_->over());
  clock_.Advance(absl::Seconds(1));
  EXPECT_TRUE(stream_->Cancelled(0));
  stream_->FailIfExpired();
  EXPECT_EQ(PullAs<TraceFailed>().status.code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST_F(ResultStreamTest, FailingDropsWhatWasNotReadAndWakesTheReader) {
  Open({.tokens_of_runs = {3}});
  EXPECT_FALSE(stream_->Pull().has_value());
  stream_->Fail(absl::AbortedError("first"));
  EXPECT_EQ(wakes_, 1);
  stream_->Fail(absl::AbortedError("second"));
  EXPECT_EQ(PullAs<TraceFailed>().status.message(), "first");
  EXPECT_EQ(budget_.reserved_bytes(), 0);
}

TEST_F(ResultStreamTest, ADeadlineStillCountsWhileAFinishedAnswerIsUnread) {
  Open({.tokens_of_runs = {3}});
  stream_->Deliver(0, Floats(3));
  stream_->EndRun(0, absl::OkStatus());
  stream_->Finish({}, {});
  clock_.Advance(absl::Seconds(11));
  stream_->FailIfExpired();
  PullAs<TraceFailed>();
}

TEST_F(ResultStreamTest, ReturnsTheBudgetAsBytesLeave) {
  Open({.tokens_of_runs = {3, 4}});
  EXPECT_EQ(budget_.reserved_bytes(), 28);
  stream_->ReleaseBytes(12);
  EXPECT_EQ(budget_.reserved_bytes(), 16);
  stream_.reset();
  EXPECT_EQ(budget_.reserved_bytes(), 0);
}

TEST_F(ResultStreamTest, GivesTokensInOrderWithTheTensors) {
  Open({.tokens_of_runs = {3, 4}, .max_tokens = 5});
  stream_->DeliverToken({.run = 0, .step = 1, .id = 7, .log_probability = -1});
  stream_->Deliver(1, Floats(4));
  stream_->DeliverToken({.run = 0, .step = 2, .id = 8});
  EXPECT_EQ(PullAs<TokenMade>().token.id, 7);
  EXPECT_EQ(PullAs<TensorReady>().tensor, 1);
  EXPECT_EQ(PullAs<TokenMade>().token.step, 2);
}

TEST_F(ResultStreamTest, TellsWhyGenerationEnded) {
  Open({.tokens_of_runs = {3, 4}});
  stream_->Deliver(0, Floats(3));
  stream_->EndRun(0, absl::OkStatus(), FinishReason::kStop);
  stream_->EndRun(1, absl::AbortedError("no"), FinishReason::kLength);
  stream_->Finish({}, {});
  PullAs<TensorReady>();
  EXPECT_THAT(PullAs<TraceFinished>().finish_reasons,
              ::testing::ElementsAre(FinishReason::kStop, FinishReason::kNone));
}

TEST_F(ResultStreamTest, CountsTheLayersOfEveryPassUntilARunHasEnded) {
  Open({.tokens_of_runs = {3, 4}, .report_progress = true, .max_tokens = 5});
  stream_->LayerDone(0, 3);
  EXPECT_EQ(PullAs<ProgressMade>().layers_total, 2 * 2 * 5);
  stream_->LayerDone(0, 3);
  stream_->LayerDone(0, 1);
  stream_->LayerDone(0, 1);
  stream_->Deliver(0, Floats(3));
  stream_->EndRun(0, absl::OkStatus(), FinishReason::kStop);
  const auto progress = PullAs<ProgressMade>();
  EXPECT_EQ(progress.layers_done, 4);
  EXPECT_EQ(progress.layers_total, 4 + 2 * 5);
}

TEST_F(ResultStreamTest, MissesNoTensorOfAStepThatWasNotReached) {
  TracePlan plan = TwoTensors();
  plan.tensors[1].run = 0;
  plan.tensors[1].step = 3;
  OpenPlan(std::make_shared<TracePlan>(plan));
  stream_->Deliver(0, Floats(3));
  stream_->EndRun(0, absl::OkStatus());
  stream_->EndRun(1, absl::OkStatus());
  stream_->Finish({}, {});
  PullAs<TensorReady>();
  EXPECT_THAT(PullAs<TraceFinished>().run_statuses,
              ::testing::ElementsAre(absl::OkStatus(), absl::OkStatus()));
}

TEST_F(ResultStreamTest, FailsARequestThatLacksATensorOfNoRun) {
  TracePlan plan = TwoTensors();
  plan.tensors[1].run = -1;
  OpenPlan(std::make_shared<TracePlan>(plan));
  stream_->Deliver(0, Floats(3));
  stream_->EndRun(0, absl::OkStatus());
  stream_->EndRun(1, absl::OkStatus());
  stream_->Finish({}, {});
  EXPECT_EQ(PullAs<TensorReady>().tensor, 0);
  const absl::Status status = PullAs<TraceFailed>().status;
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("tensor 1"));
}

TEST_F(ResultStreamTest, SaysWhichRunFailedRatherThanThatATensorIsMissing) {
  TracePlan plan = TwoTensors();
  plan.tensors[1].run = -1;
  OpenPlan(std::make_shared<TracePlan>(plan));
  stream_->Deliver(0, Floats(3));
  stream_->EndRun(0, absl::OkStatus());
  stream_->EndRun(1, absl::AbortedError("no"));
  stream_->Finish({}, {});
  PullAs<TensorReady>();
  EXPECT_EQ(PullAs<TraceFinished>().run_statuses[1], absl::AbortedError("no"));
}

TEST_F(ResultStreamTest, AnErrorOfAGradientCountsAfterItsRunHasEndedWell) {
  Open({.tokens_of_runs = {3}});
  stream_->Deliver(0, Floats(3));
  stream_->EndRun(0, absl::OkStatus());
  EXPECT_FALSE(stream_->Cancelled(0));
  stream_->EndRun(0, absl::AbortedError("first"));
  stream_->EndRun(0, absl::AbortedError("second"));
  EXPECT_TRUE(stream_->Cancelled(0));
  EXPECT_EQ(stream_->StatusOf(0), absl::AbortedError("first"));
}

TEST_F(ResultStreamTest, KeepsATensorInsteadOfSendingIt) {
  TracePlan plan = TwoTensors();
  plan.tensors[1].kept_as = "mean";
  OpenPlan(std::make_shared<TracePlan>(plan));
  stream_->Deliver(1, Floats(4));
  stream_->Deliver(0, Floats(3));
  EXPECT_EQ(kept_.at("mean").shape, std::vector<int64_t>{4});
  EXPECT_EQ(budget_.reserved_bytes(), 12);
  EXPECT_EQ(PullAs<TensorReady>().tensor, 0);
  EXPECT_FALSE(stream_->Pull().has_value());
  stream_->EndRun(1, absl::OkStatus());
  EXPECT_TRUE(stream_->StatusOf(1).ok());
}

TEST_F(ResultStreamTest, FailsARunWhoseTensorCannotBeKept) {
  TracePlan plan = TwoTensors();
  plan.tensors[1].kept_as = "mean";
  keep_status_ = absl::ResourceExhaustedError("full");
  OpenPlan(std::make_shared<TracePlan>(plan));
  stream_->Deliver(1, Floats(4));
  EXPECT_TRUE(stream_->Cancelled(1));
  stream_->EndRun(1, absl::OkStatus());
  EXPECT_EQ(stream_->StatusOf(1), absl::ResourceExhaustedError("full"));
}

}  // namespace
}  // namespace phitap
