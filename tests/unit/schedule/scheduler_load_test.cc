// Many callers at once, each of whom does as he likes with his answers, while
// executors come and go: every request that is accepted ends once, and nothing
// is held in the end.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/schedule/scheduler.h"
#include "tests/support/busy_executor.h"
#include "tests/support/load_seed.h"
#include "tests/support/manual_clock.h"
#include "tests/support/meanwhile.h"
#include "tests/unit/schedule/load_caller.h"

namespace phitap {
namespace {

constexpr int kCallers = 5;
constexpr int kRequestsOfCaller = 60;
constexpr int kExecutorsThatCome = 12;

class SchedulerLoad : public ::testing::Test {
 protected:
  void Start() {
    absl::StatusOr<std::unique_ptr<Scheduler>> scheduler = Scheduler::Start(
        {.max_wave_tokens = 512,
         .queue = {.max_requests = 12},
         .memory = {.max_undelivered_bytes = 40'000,
                    .max_caller_bytes = 16'000,
                    .max_root_bytes = 4'000},
         .clock = &clock_},
        [this]() -> absl::StatusOr<ExecutorMap> {
          ExecutorMap executors;
          executors["tiny"] = std::make_unique<BusyExecutor>(&counts_);
          executors["other"] = std::make_unique<BusyExecutor>(&counts_);
          return executors;
        });
    ASSERT_TRUE(scheduler.ok()) << scheduler.status();
    scheduler_ = *std::move(scheduler);
  }

  // Has callers ask, each on a thread, until `ask` of each has returned.
  template <typename Ask>
  void AskTogether(Ask ask) {
    std::vector<std::unique_ptr<LoadCaller>> callers;
    std::vector<std::thread> threads;
    for (int i = 0; i < kCallers; ++i) {
      callers.push_back(std::make_unique<LoadCaller>(
          LoadCallerOptions{.scheduler = scheduler_.get(),
                            .clock = &clock_,
                            .executors = {"tiny", "tiny", "other", "come"},
                            // Two share a name.
                            .name = absl::StrCat("caller", i / 2),
                            .seed = LoadSeed(i)}));
      threads.emplace_back(
          [&ask, caller = callers.back().get()] { ask(*caller); });
    }
    for (std::thread& thread : threads) thread.join();
    for (const auto& caller : callers) {
      caller->ReadRest();
      total_ += caller->counts();
    }
  }

  // Nothing is queued, computed or held any more.
  void ExpectNothingLeft() {
    scheduler_->Drain();
    EXPECT_EQ(total_.accepted, total_.finished + total_.expired + total_.left);
    EXPECT_EQ(scheduler_->queued_requests(), 0);
    EXPECT_EQ(scheduler_->undelivered_bytes(), 0);
    EXPECT_TRUE(scheduler_->activity().callers.empty());
    EXPECT_EQ(scheduler_->activity().waves.count, 0);
    EXPECT_EQ(counts_.memories, 0);
    EXPECT_EQ(counts_.waves, 0);
    EXPECT_EQ(counts_.lost_roots, 0);
  }

  ManualClock clock_;
  BusyCounts counts_;
  LoadCounts total_;
  std::unique_ptr<Scheduler> scheduler_;
};

TEST_F(SchedulerLoad, EndsEveryRequestOnceAndHoldsNothing) {
  Start();
  {
    const Meanwhile time([&] { clock_.Advance(absl::Microseconds(50)); });
    const Meanwhile look([&] {
      const EngineActivity activity = scheduler_->activity();
      EXPECT_LE(activity.undelivered_bytes, 40'000);
      EXPECT_GE(activity.running_requests(), 0);
      EXPECT_GT(scheduler_->retry_hint(), absl::ZeroDuration());
    });
    AskTogether([](LoadCaller& caller) {
      for (int i = 0; i < kRequestsOfCaller; ++i) caller.AskOnce();
    });
  }
  EXPECT_GT(total_.finished, kCallers * kRequestsOfCaller / 5);
  EXPECT_GT(total_.left, 0);
  EXPECT_GT(total_.refused, 0);
  ExpectNothingLeft();
  EXPECT_GT(counts_.rows_from_roots, 0);
}

TEST_F(SchedulerLoad, LetsExecutorsComeAndGoBetweenRequests) {
  Start();
  int64_t errands = 0;
  std::thread coming([&] {
    for (int i = 0; i < kExecutorsThatCome; ++i) {
      scheduler_->AddExecutor("come", std::make_unique<BusyExecutor>(&counts_));
      // Counted without a lock: they are the compute thread's.
      EXPECT_TRUE(scheduler_
                      ->RunBetweenSteps([&] {
                        errands += 1;
                        counts_.layers += 1;
                      })
                      .ok());
      scheduler_->RemoveExecutor("come");
      EXPECT_EQ(scheduler_->requests_of("come"), 0);
    }
  });
  AskTogether([](LoadCaller& caller) {
    for (int i = 0; i < kRequestsOfCaller; ++i) caller.AskOnce();
  });
  coming.join();
  EXPECT_EQ(errands, kExecutorsThatCome);
  ExpectNothingLeft();
}

TEST_F(SchedulerLoad, FinishesWhatItHasAcceptedAsItStops) {
  Start();
  std::atomic<int> asked = 0;
  std::thread stop([&] {
    while (asked < kCallers * 10) std::this_thread::yield();
    scheduler_->StopAccepting();
  });
  AskTogether([&](LoadCaller& caller) {
    while (!caller.refused_for_good()) {
      caller.AskOnce();
      ++asked;
    }
  });
  stop.join();
  ExpectNothingLeft();
}

}  // namespace
}  // namespace phitap
