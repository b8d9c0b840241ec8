#include "server/schedule/scheduler.h"

#include <algorithm>
#include <future>
#include <set>
#include <utility>
#include <vector>

#include "server/base/status_macros.h"

namespace phitap {
namespace {

// Each request of the wave once.
std::set<AcceptedTrace*> TracesOf(const Wave& wave) {
  std::set<AcceptedTrace*> traces;
  for (const WaveEntry& entry : wave) traces.insert(entry.trace.get());
  return traces;
}

std::vector<WaveRow> RowsOf(const Wave& wave) {
  std::vector<WaveRow> rows;
  rows.reserve(wave.size());
  for (const WaveEntry& entry : wave) {
    rows.push_back({.plan = entry.trace->plan,
                    .run = entry.run,
                    .sink = entry.trace->stream});
  }
  return rows;
}

void EndRun(const WaveEntry& entry, absl::Status status) {
  AcceptedTrace& trace = *entry.trace;
  trace.stream->EndRun(entry.run, std::move(status));
  if (++trace.ended_runs < trace.run_count()) return;
  trace.stream->Finish(trace.started_at - trace.accepted_at,
                       trace.compute_time);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Scheduler>> Scheduler::Start(
    SchedulerOptions options, LoadExecutors load) {
  auto scheduler = std::unique_ptr<Scheduler>(new Scheduler(options));
  std::promise<absl::Status> loaded;
  std::future<absl::Status> load_status = loaded.get_future();
  scheduler->compute_thread_ =
      std::thread([scheduler = scheduler.get(), load = std::move(load),
                   loaded = std::move(loaded)]() mutable {
        absl::StatusOr<ExecutorMap> executors = std::exchange(load, nullptr)();
        loaded.set_value(executors.status());
        if (executors.ok()) scheduler->Serve(*std::move(executors));
      });
  RETURN_IF_ERROR(load_status.get());
  return scheduler;
}

Scheduler::Scheduler(SchedulerOptions options)
    : options_(options),
      budget_(options.max_undelivered_bytes),
      queue_(options.max_queued_requests) {}

Scheduler::~Scheduler() { Drain(); }

absl::StatusOr<std::shared_ptr<ResultStream>> Scheduler::Submit(
    Submission submission) {
  ASSIGN_OR_RETURN(ByteBudget::Reservation reservation,
                   budget_.Reserve(submission.plan->size_bytes));
  auto trace = std::make_shared<AcceptedTrace>();
  trace->plan = submission.plan;
  trace->accepted_at = options_.clock->Now();
  trace->stream = std::make_shared<ResultStream>(
      ResultStreamOptions{.plan = std::move(submission.plan),
                          .deadline = submission.deadline,
                          .clock = options_.clock,
                          .wake = std::move(submission.wake),
                          .reservation = std::move(reservation)});
  std::shared_ptr<ResultStream> stream = trace->stream;
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return absl::UnavailableError("the server is stopping");
    RETURN_IF_ERROR(queue_.Push(std::move(trace)));
    queue_.TellPositions(running_);
  }
  work_.notify_one();
  return stream;
}

void Scheduler::StopAccepting() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_one();
}

void Scheduler::Drain() {
  StopAccepting();
  if (compute_thread_.joinable()) compute_thread_.join();
}

int Scheduler::queued_requests() const {
  std::lock_guard lock(mutex_);
  return queue_.size();
}

void Scheduler::Serve(ExecutorMap executors) {
  for (Wave wave = AwaitWave(); !wave.empty(); wave = AwaitWave()) {
    Executor& executor = *executors.at(wave.front().trace->plan->model);
    RunWave(std::exchange(wave, {}), executor);
  }
}

Wave Scheduler::AwaitWave() {
  std::unique_lock lock(mutex_);
  running_ = 0;
  for (;;) {
    queue_.DropOver();
    Wave wave = queue_.TakeWave(options_.max_wave_tokens);
    if (!wave.empty()) {
      for (AcceptedTrace* trace : TracesOf(wave)) {
        if (trace->all_runs_taken()) ++running_;
        trace->stream->SetQueuePosition(0);
      }
      queue_.TellPositions(running_);
      return wave;
    }
    if (stopping_) return {};
    work_.wait(lock);
  }
}

void Scheduler::RunWave(Wave wave, Executor& executor) {
  const std::set<AcceptedTrace*> traces = TracesOf(wave);
  const absl::Time started_at = options_.clock->Now();
  for (AcceptedTrace* trace : traces) {
    trace->started_at = std::min(trace->started_at, started_at);
  }
  std::vector<RowOutcome> outcomes = executor.Run(RowsOf(wave));
  const absl::Duration compute_time = options_.clock->Now() - started_at;
  for (AcceptedTrace* trace : traces) {
    trace->compute_time += compute_time;
    // Rows that were dropped at the deadline say CANCELLED; this says why.
    trace->stream->FailIfExpired();
  }
  for (size_t i = 0; i < wave.size(); ++i) {
    EndRun(wave[i], std::move(outcomes[i].status));
  }
}

}  // namespace phitap
