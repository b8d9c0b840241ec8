// A scheduler whose waves a test runs by hand.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_UNIT_SCHEDULE_SCHEDULER_FIXTURE_H_
#define PHITAP_TESTS_UNIT_SCHEDULE_SCHEDULER_FIXTURE_H_

#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "server/schedule/scheduler.h"
#include "tests/support/manual_clock.h"
#include "tests/support/puppet_executor.h"
#include "tests/support/small_plans.h"

namespace phitap {

// Reads a stream to its end, blocking.
class Reader {
 public:
  std::function<void()> wake() {
    return [this] {
      std::lock_guard lock(mutex_);
      woken_ = true;
      changed_.notify_one();
    };
  }

  StreamEvent Next(ResultStream& stream) {
    for (;;) {
      if (std::optional<StreamEvent> event = stream.Pull()) return *event;
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return std::exchange(woken_, false); });
    }
  }

  // The last event; counts the tensors on the way.
  StreamEvent End(ResultStream& stream) {
    for (;;) {
      StreamEvent event = Next(stream);
      if (std::holds_alternative<TraceFinished>(event) ||
          std::holds_alternative<TraceFailed>(event)) {
        return event;
      }
      if (std::holds_alternative<TensorReady>(event)) ++tensor_count;
    }
  }

  int tensor_count = 0;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = false;
};

class SchedulerTest : public ::testing::Test {
 protected:
  void TearDown() override { stage_.RunFreely(); }

  void Start(SchedulerOptions options, PuppetSteps steps = PuppetSteps::kOne) {
    options.clock = &clock_;
    absl::StatusOr<std::unique_ptr<Scheduler>> scheduler =
        Scheduler::Start(options, [=, this]() -> absl::StatusOr<ExecutorMap> {
          ExecutorMap executors;
          for (const char* model : {"tiny", "other"}) {
            executors[model] = std::make_unique<PuppetExecutor>(&stage_, steps);
          }
          return executors;
        });
    ASSERT_TRUE(scheduler.ok()) << scheduler.status();
    scheduler_ = *std::move(scheduler);
  }

  absl::StatusOr<std::shared_ptr<ResultStream>> Submit(
      const SmallPlan& small, Reader& reader,
      absl::Duration patience = absl::InfiniteDuration()) {
    return scheduler_->Submit({.plan = MakePlan(small),
                               .caller = caller_,
                               .deadline = clock_.Now() + patience,
                               .wake = reader.wake()});
  }

  ManualClock clock_;
  // Of Submit.
  std::string caller_ = "ann";
  WaveStage stage_;
  // Last, hence drained first, with the wave that TearDown set free.
  std::unique_ptr<Scheduler> scheduler_;
};

}  // namespace phitap

#endif  // PHITAP_TESTS_UNIT_SCHEDULE_SCHEDULER_FIXTURE_H_
