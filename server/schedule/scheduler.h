// Admits requests and runs them in waves on the one thread that owns the
// device.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_SCHEDULE_SCHEDULER_H_
#define PHITAP_SERVER_SCHEDULE_SCHEDULER_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/base/clock.h"
#include "server/observe/metrics.h"
#include "server/plan/executor.h"
#include "server/plan/trace_plan.h"
#include "server/schedule/byte_budget.h"
#include "server/schedule/engine_activity.h"
#include "server/schedule/errands.h"
#include "server/schedule/executor_table.h"
#include "server/schedule/memory_limits.h"
#include "server/schedule/request_queue.h"
#include "server/schedule/result_stream.h"
#include "server/schedule/retry_pace.h"
#include "server/schedule/rows/row_planner.h"
#include "server/schedule/wave_builder.h"
#include "server/schedule/wave_stack.h"
#include "server/schedule/wave_under_way.h"

namespace phitap {

struct SchedulerOptions {
  // Tokens of a wave.
  int64_t max_wave_tokens = 8192;
  RequestQueueLimits queue;
  // Where 0: half of what is undelivered for a caller, no roots, and no bound
  // on the others.
  MemoryLimits memory;
  // Asked once, on the compute thread, after LoadExecutors; null leaves
  // `memory` as it is.
  std::function<MemoryLimits()> decide_memory;
  CallerSharing sharing = CallerSharing::kWithinCaller;
  // Both outlive the scheduler. Without metrics nothing is counted.
  const Clock* clock = nullptr;
  Metrics* metrics = nullptr;
};

// Readies the compute thread, and loads what is there from the start. Called
// once, on that thread.
using LoadExecutors = std::function<absl::StatusOr<ExecutorMap>()>;

struct Submission {
  std::shared_ptr<const TracePlan> plan;
  // Who asks: the bytes and turns of one caller are counted together, and only
  // requests of one caller share what they have in common.
  std::string caller;
  // Of the caller, beside the server's own bound for one: the smaller counts.
  int64_t max_caller_bytes = std::numeric_limits<int64_t>::max();
  absl::Time deadline = absl::InfiniteFuture();
  // See ResultStreamOptions.
  std::function<void()> wake;
  KeepTensor keep;
};

// Thread-safe. Outlives the streams that it gave out.
class Scheduler {
 public:
  // Starts the compute thread and blocks until `load` has ended. Returns its
  // error.
  static absl::StatusOr<std::unique_ptr<Scheduler>> Start(
      SchedulerOptions options, LoadExecutors load);
  // Drains.
  ~Scheduler();

  // Accepts a request: it will end in TraceFinished or TraceFailed. The wake
  // may be called before this returns only if the stream has been pulled.
  // RESOURCE_EXHAUSTED if the request's bytes can never fit; UNAVAILABLE, with
  // a hint when to try again (see RetryHintOf), if they do not fit beside those
  // of others or the queue is full; UNAVAILABLE if the server is stopping;
  // ABORTED if the plan's executor is not there any more.
  absl::StatusOr<std::shared_ptr<ResultStream>> Submit(Submission submission);

  // Takes requests for it from now on; there is none of that key.
  void AddExecutor(const std::string& key, std::unique_ptr<Executor> executor);
  // Refuses requests for it, blocks until those that were accepted have ended,
  // and frees it and all that it keeps.
  void RemoveExecutor(const std::string& key);
  // Accepted requests of that executor that have not ended.
  int64_t requests_of(const std::string& key) const {
    return executors_.use_count(key);
  }
  // Blocks until the compute thread has run `task`, which delays everything
  // else that it does, between two steps. CANCELLED once that thread has ended.
  absl::Status RunBetweenSteps(std::function<void()> task) {
    return errands_.Run(std::move(task));
  }

  // Refuses requests from now on. What was accepted goes on.
  void StopAccepting();
  // StopAccepting, then blocks until every accepted request has been computed.
  void Drain();

  // Whether requests are refused because the server stops.
  bool stopping() const {
    std::lock_guard lock(mutex_);
    return stopping_;
  }
  // How soon what does not fit now may.
  absl::Duration retry_hint() const { return pace_.hint(); }
  int queued_requests() const;
  int64_t undelivered_bytes() const { return budget_->reserved_bytes(); }
  const MemoryLimits& memory() const { return memory_; }
  EngineActivity activity() const;

 private:
  explicit Scheduler(SchedulerOptions options);

  // On the compute thread.
  void Begin(ExecutorMap executors);
  void DecideMemory();
  absl::StatusOr<std::shared_ptr<AcceptedTrace>> Admit(Submission submission);

  // The compute thread: waves and errands until drained.
  void Serve();
  using StartWave = std::function<std::unique_ptr<WaveUnderWay>(GatheredWave)>;
  // One step of a wave, of a new one if it is time for one.
  void MakeStep(WaveStack& waves, const StartWave& start);
  // Has executors free the roots that were given up.
  void ForgetRoots();
  // For whoever asks what goes on.
  void Show(const WavesUnderWay& waves);
  // Requests in waves under way of which nothing is queued. With mutex_ held.
  int CountRunning() const;
  // Blocks until there is something to do; false once the server is stopping
  // and nothing is left to compute.
  bool AwaitWork();
  // The next wave within `room`; empty if nothing that is queued fits.
  GatheredWave TakeWave(const WaveLimits& room);
  // The wave has ended: queues again what of it goes on.
  void PutBack(std::unique_ptr<WaveUnderWay> ended);

  const SchedulerOptions options_;
  // Set before Start returns.
  MemoryLimits memory_;
  std::optional<ByteBudget> budget_;
  RetryPace pace_;
  Errands errands_;
  // Before the queue, whose requests use them.
  ExecutorTable executors_;
  // The compute thread's; set before Start returns.
  std::optional<RowPlanner> rows_;

  std::atomic<int> wave_count_ = 0;
  std::atomic<int64_t> wave_tokens_ = 0;
  std::atomic<int64_t> workspace_bytes_ = 0;
  std::atomic<int64_t> root_bytes_ = 0;

  mutable std::mutex mutex_;  // Guards the next three.
  RequestQueue queue_;
  // Of each request that has passes in waves under way: in how many.
  std::map<const AcceptedTrace*, int> under_way_;
  bool stopping_ = false;
  std::condition_variable work_;

  std::thread compute_thread_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_SCHEDULE_SCHEDULER_H_
