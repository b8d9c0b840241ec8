// Admits requests and runs them in waves on the one thread that owns the
// device.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_SCHEDULE_SCHEDULER_H_
#define PHITAP_SERVER_SCHEDULE_SCHEDULER_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/base/clock.h"
#include "server/plan/executor.h"
#include "server/plan/trace_plan.h"
#include "server/schedule/byte_budget.h"
#include "server/schedule/request_queue.h"
#include "server/schedule/result_stream.h"

namespace phitap {

struct SchedulerOptions {
  // Tokens of a wave.
  int64_t max_wave_tokens = 8192;
  // Requests that wait.
  int max_queued_requests = 256;
  // Bytes of answers that are queued, computed or not yet sent, and of what
  // requests hold while they are computed (TracePlan::working_bytes).
  int64_t max_undelivered_bytes = int64_t{16} << 30;
  // Outlives the scheduler.
  const Clock* clock = nullptr;
};

// By the name of the model.
using ExecutorMap = std::map<std::string, std::unique_ptr<Executor>>;
// Loads the models. Called once, on the compute thread.
using LoadExecutors = std::function<absl::StatusOr<ExecutorMap>()>;

struct Submission {
  std::shared_ptr<const TracePlan> plan;
  // Who asks: the bytes and turns of one caller are counted together, and only
  // requests of one caller share what they have in common.
  std::string caller;
  absl::Time deadline = absl::InfiniteFuture();
  // See ResultStreamOptions.
  std::function<void()> wake;
  KeepTensor keep;
};

// Thread-safe. Outlives the streams that it gave out.
class Scheduler {
 public:
  // Starts the compute thread and blocks until the models are loaded. Returns
  // the error of `load`.
  static absl::StatusOr<std::unique_ptr<Scheduler>> Start(
      SchedulerOptions options, LoadExecutors load);
  // Drains.
  ~Scheduler();

  // Accepts a request: it will end in TraceFinished or TraceFailed. The wake
  // may be called before this returns only if the stream has been pulled.
  // UNAVAILABLE if the queue is full or the server is stopping;
  // RESOURCE_EXHAUSTED if the request's bytes do not fit beside those of
  // others.
  absl::StatusOr<std::shared_ptr<ResultStream>> Submit(Submission submission);

  // Refuses requests from now on. What was accepted goes on.
  void StopAccepting();
  // StopAccepting, then blocks until every accepted request has been computed.
  void Drain();

  int queued_requests() const;
  int64_t undelivered_bytes() const { return budget_.reserved_bytes(); }

 private:
  explicit Scheduler(SchedulerOptions options);

  // The compute thread: load, then waves until drained.
  void Serve(ExecutorMap executors);
  // Queues again what of `done` goes on, then blocks for work. Empty once
  // stopped and nothing is queued.
  Wave AwaitWave(Wave done);
  // What AwaitWave does, with mutex_ held; the requests that it drops are to be
  // destroyed without it.
  Wave TakeWave(std::vector<std::shared_ptr<AcceptedTrace>>& dropped);
  void RunWave(const Wave& wave, Executor& executor);

  const SchedulerOptions options_;
  ByteBudget budget_;

  mutable std::mutex mutex_;  // Guards the next three.
  RequestQueue queue_;
  // Requests in the wave that runs, without those that are queued as well.
  int running_ = 0;
  bool stopping_ = false;
  std::condition_variable work_;

  std::thread compute_thread_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_SCHEDULE_SCHEDULER_H_
