#include "server/schedule/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "tests/unit/schedule/scheduler_fixture.h"

namespace phitap {
namespace {

using ::testing::HasSubstr;

TEST_F(SchedulerTest, ReturnsTheErrorOfALoadThatFails) {
  const absl::Status status =
      Scheduler::Start({.clock = &clock_}, []() -> absl::StatusOr<ExecutorMap> {
        return absl::NotFoundError("no such folder");
      }).status();
  EXPECT_EQ(status, absl::NotFoundError("no such folder"));
}

TEST_F(SchedulerTest, LoadsOnTheThreadThatRunsTheWaves) {
  class AbortedWave final : public RunningWave {
   public:
    explicit AbortedWave(size_t run_count) : run_count_(run_count) {}
    bool Step() override { return false; }
    std::vector<RowOutcome> Finish() override {
      return std::vector<RowOutcome>(run_count_,
                                     {.status = absl::AbortedError("told")});
    }
    std::vector<RootId> kept_roots() const override { return {}; }

   private:
    const size_t run_count_;
  };
  class ThreadTeller final : public Executor {
   public:
    explicit ThreadTeller(std::promise<std::thread::id>* ran) : ran_(ran) {}
    std::shared_ptr<TraceMemory> Begin(
        std::shared_ptr<const TracePlan> /*plan*/) override {
      return nullptr;
    }
    std::unique_ptr<RunningWave> Start(WavePlan plan) override {
      ran_->set_value(std::this_thread::get_id());
      return std::make_unique<AbortedWave>(plan.runs.size());
    }
    int64_t RootBytes(int layer_count, int64_t token_count) const override {
      return layer_count * token_count;
    }
    void ForgetRoot(RootId /*root*/) override {}
    std::promise<std::thread::id>* ran_;
  };
  std::promise<std::thread::id> ran;
  std::thread::id loaded;
  auto scheduler = Scheduler::Start(
      {.clock = &clock_}, [&]() -> absl::StatusOr<ExecutorMap> {
        loaded = std::this_thread::get_id();
        ExecutorMap executors;
        executors["tiny"] = std::make_unique<ThreadTeller>(&ran);
        return executors;
      });
  ASSERT_TRUE(scheduler.ok());
  Reader reader;
  ASSERT_TRUE(
      (*scheduler)->Submit({.plan = MakePlan({}), .wake = reader.wake()}).ok());
  EXPECT_EQ(ran.get_future().get(), loaded);
  EXPECT_NE(loaded, std::this_thread::get_id());
}

TEST_F(SchedulerTest, RunsARequestToItsEnd) {
  Start({});
  Reader reader;
  auto stream = Submit({.tokens_of_runs = {3, 4}}, reader);
  ASSERT_TRUE(stream.ok());
  stage_.Await();
  clock_.Advance(absl::Seconds(3));
  stage_.CompleteNext();
  const auto finished = std::get<TraceFinished>(reader.End(**stream));
  EXPECT_EQ(reader.tensor_count, 2);
  EXPECT_EQ(finished.queue_time, absl::ZeroDuration());
  EXPECT_EQ(finished.compute_time, absl::Seconds(3));
}

TEST_F(SchedulerTest, GathersWhatCameWhileAWaveRan) {
  Start({});
  Reader reader;
  auto first = Submit({}, reader);
  stage_.Await();
  auto second = Submit({}, reader);
  auto third = Submit({}, reader);
  clock_.Advance(absl::Seconds(2));
  EXPECT_EQ(stage_.CompleteNext().size(), 1u);
  std::get<TraceFinished>(reader.End(**first));
  EXPECT_EQ(stage_.CompleteNext().size(), 2u);
  EXPECT_EQ(std::get<TraceFinished>(reader.End(**second)).queue_time,
            absl::Seconds(2));
}

TEST_F(SchedulerTest, AFailingRowFailsAlone) {
  Start({});
  Reader blocker_reader;
  auto blocker = Submit({}, blocker_reader);
  stage_.Await();
  Reader first_reader;
  Reader second_reader;
  auto first = Submit({.tokens_of_runs = {2, 2}}, first_reader);
  auto second = Submit({.tokens_of_runs = {2}}, second_reader);
  stage_.CompleteNext();
  std::get<TraceFinished>(blocker_reader.End(**blocker));

  // Rows in turn: first 0, second 0, first 1.
  const std::vector<WaveRun> rows = stage_.Await();
  ASSERT_EQ(rows.size(), 3u);
  DeliverAll(rows[1]);
  DeliverAll(rows[2]);
  stage_.Complete(
      {{.status = absl::ResourceExhaustedError("out of memory")}, {}, {}});
  EXPECT_THAT(
      std::get<TraceFinished>(first_reader.End(**first)).run_statuses,
      ::testing::ElementsAre(absl::ResourceExhaustedError("out of memory"),
                             absl::OkStatus()));
  EXPECT_THAT(std::get<TraceFinished>(second_reader.End(**second)).run_statuses,
              ::testing::ElementsAre(absl::OkStatus()));
}

TEST_F(SchedulerTest, AClosedStreamTakesNoMoreWaves) {
  Start({.max_wave_tokens = 4});
  Reader reader;
  auto cancelled = Submit({.tokens_of_runs = {4, 4, 4}}, reader);
  const std::vector<WaveRun> rows = stage_.Await();
  EXPECT_FALSE(rows[0].sink->Cancelled(0));
  (*cancelled)->Close();
  EXPECT_TRUE(rows[0].sink->Cancelled(0));
  Reader next_reader;
  auto next = Submit({.tokens_of_runs = {3}}, next_reader);
  stage_.Complete({{.status = absl::CancelledError("")}});
  std::get<TraceFinished>([&] {
    EXPECT_EQ(stage_.CompleteNext()[0].plan->runs[0].ids.size(), 3u);
    return next_reader.End(**next);
  }());
}

TEST_F(SchedulerTest, FailsARequestWhoseDeadlinePassesInAWave) {
  Start({});
  Reader reader;
  auto stream = Submit({}, reader, absl::Seconds(5));
  const std::vector<WaveRun> rows = stage_.Await();
  clock_.Advance(absl::Seconds(6));
  EXPECT_TRUE(rows[0].sink->Cancelled(0));
  stage_.Complete({{.status = absl::CancelledError("dropped between layers")}});
  EXPECT_EQ(std::get<TraceFailed>(reader.End(**stream)).status.code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST_F(SchedulerTest, FailsARequestWhoseDeadlinePassesInTheQueue) {
  Start({});
  Reader reader;
  auto running = Submit({}, reader);
  stage_.Await();
  Reader late_reader;
  auto late = Submit({}, late_reader, absl::Seconds(5));
  clock_.Advance(absl::Seconds(6));
  stage_.CompleteNext();
  EXPECT_EQ(std::get<TraceFailed>(late_reader.End(**late)).status.code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST_F(SchedulerTest, TellsPlacesInTheQueue) {
  Start({});
  Reader reader;
  auto running = Submit({}, reader);
  stage_.Await();
  auto queued = Submit({}, reader);
  Reader last_reader;
  auto last = Submit({.report_progress = true}, last_reader);
  EXPECT_EQ(std::get<ProgressMade>(last_reader.Next(**last)).queue_position, 2);
  stage_.CompleteNext();
  EXPECT_EQ(std::get<ProgressMade>(last_reader.Next(**last)).queue_position, 0);
}

TEST_F(SchedulerTest, DrainsWhatWasAcceptedAndRefusesTheRest) {
  Start({.max_wave_tokens = 3});
  Reader first_reader;
  Reader second_reader;
  auto first = Submit({.tokens_of_runs = {3, 3}}, first_reader);
  auto second = Submit({}, second_reader);
  stage_.Await();
  scheduler_->StopAccepting();
  Reader late_reader;
  const absl::Status late = Submit({}, late_reader).status();
  EXPECT_EQ(late.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(late.message()), HasSubstr("stopping"));
  stage_.RunFreely();
  scheduler_->Drain();
  std::get<TraceFinished>(first_reader.End(**first));
  std::get<TraceFinished>(second_reader.End(**second));
  EXPECT_EQ(first_reader.tensor_count, 2);
}

// Tells where its memories are made and freed.
class RememberingExecutor final : public Executor {
 public:
  struct Record {
    std::mutex mutex;
    std::vector<std::thread::id> begun;
    std::vector<std::thread::id> freed;
    std::thread::id ran;
  };
  RememberingExecutor(WaveStage* stage, Record* record)
      : stage_(stage), record_(record) {}

  std::shared_ptr<TraceMemory> Begin(
      std::shared_ptr<const TracePlan> /*plan*/) override {
    std::lock_guard lock(record_->mutex);
    record_->begun.push_back(std::this_thread::get_id());
    return std::make_shared<Memory>(record_);
  }
  std::unique_ptr<RunningWave> Start(WavePlan plan) override {
    // The test's thread is shown runs without it.
    for (WaveRun& run : plan.runs) {
      EXPECT_NE(std::exchange(run.memory, nullptr), nullptr);
    }
    record_->ran = std::this_thread::get_id();
    return std::make_unique<PuppetWave>(stage_, std::move(plan), 1);
  }
  int64_t RootBytes(int layer_count, int64_t token_count) const override {
    return layer_count * token_count;
  }
  void ForgetRoot(RootId /*root*/) override {}

 private:
  struct Memory final : TraceMemory {
    explicit Memory(Record* r) : record(r) {}
    ~Memory() override {
      std::lock_guard lock(record->mutex);
      record->freed.push_back(std::this_thread::get_id());
    }
    Record* const record;
  };
  WaveStage* const stage_;
  Record* const record_;
};

TEST_F(SchedulerTest, MakesAndFreesARequestsMemoryOnceOnTheComputeThread) {
  RememberingExecutor::Record record;
  scheduler_ = *Scheduler::Start({.max_wave_tokens = 2, .clock = &clock_},
                                 [&]() -> absl::StatusOr<ExecutorMap> {
                                   ExecutorMap executors;
                                   executors["tiny"] =
                                       std::make_unique<RememberingExecutor>(
                                           &stage_, &record);
                                   return executors;
                                 });
  Reader reader;
  Reader cancelled_reader;
  auto stream = Submit({.tokens_of_runs = {2, 2, 2}}, reader);
  stage_.Await();
  auto cancelled = Submit({.tokens_of_runs = {2, 2, 2}}, cancelled_reader);
  stage_.CompleteNext();
  stage_.CompleteNext();
  EXPECT_EQ(stage_.CompleteNext()[0].run, 0);  // The other's first.
  EXPECT_EQ(stage_.Await()[0].run, 2);
  (*cancelled)->Close();  // Queued, with a memory.
  stage_.CompleteNext();
  std::get<TraceFinished>(reader.End(**stream));
  scheduler_->Drain();
  EXPECT_THAT(record.begun, ::testing::ElementsAre(record.ran, record.ran));
  EXPECT_THAT(record.freed, ::testing::ElementsAre(record.ran, record.ran));
}

TEST_F(SchedulerTest, EndsEveryRequestOfManyClientsExactlyOnce) {
  Start({.max_wave_tokens = 16,
         .queue = {.max_requests = 1000, .max_caller_requests = 1000}});
  stage_.RunFreely();
  std::atomic<int> finished = 0;
  std::vector<std::thread> clients;
  for (int client = 0; client < 8; ++client) {
    clients.emplace_back([&, client] {
      for (int i = 0; i < 40; ++i) {
        Reader reader;
        auto stream = Submit({.tokens_of_runs = {1 + client, 2, 3 + i % 5},
                              .isolate = i % 7 == 0},
                             reader);
        ASSERT_TRUE(stream.ok()) << stream.status();
        if (i % 5 == 4) {
          (*stream)->Close();
          continue;
        }
        const StreamEvent end = reader.End(**stream);
        ASSERT_TRUE(std::holds_alternative<TraceFinished>(end));
        ASSERT_EQ(reader.tensor_count, 3);
        ++finished;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(finished, 8 * 32);
  scheduler_->Drain();
  EXPECT_EQ(scheduler_->undelivered_bytes(), 0);
}

}  // namespace
}  // namespace phitap
