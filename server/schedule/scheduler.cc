#include "server/schedule/scheduler.h"

#include <algorithm>
#include <future>
#include <set>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "server/base/status_macros.h"
#include "server/schedule/settle_pass.h"

namespace phitap {
namespace {

// Each request of the wave once.
std::set<AcceptedTrace*> TracesOf(const Wave& wave) {
  std::set<AcceptedTrace*> traces;
  for (const WaveEntry& entry : wave) traces.insert(entry.trace.get());
  return traces;
}

std::vector<WaveRun> RunsOf(const Wave& wave) {
  std::vector<WaveRun> runs;
  for (const WaveEntry& entry : wave) {
    const AcceptedTrace& trace = *entry.trace;
    for (int run : entry.pass.runs) {
      runs.push_back({.plan = trace.plan,
                      .run = run,
                      .sink = trace.stream,
                      .memory = trace.memory,
                      .gradient_pass =
                          trace.plan->groups[entry.pass.group].gradient_pass});
    }
  }
  return runs;
}

// Tells the requests that they begin, at `now`.
void Begin(const std::set<AcceptedTrace*>& traces, absl::Time now,
           Executor& executor) {
  for (AcceptedTrace* trace : traces) {
    if (trace->started_at != absl::InfiniteFuture()) continue;
    trace->started_at = now;
    trace->memory = executor.Begin(trace->plan);
  }
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
      budget_(options.max_undelivered_bytes,
              "answers and what is computed for them"),
      queue_(options.max_queued_requests) {}

Scheduler::~Scheduler() { Drain(); }

absl::StatusOr<std::shared_ptr<ResultStream>> Scheduler::Submit(
    Submission submission) {
  const TracePlan& plan = *submission.plan;
  ASSIGN_OR_RETURN(ByteBudget::Reservation reservation,
                   budget_.Reserve(plan.size_bytes + plan.working_bytes));
  auto trace = std::make_shared<AcceptedTrace>(submission.plan);
  if (!trace->groups.has_ready()) {
    return absl::InternalError("the plan has no group to begin with");
  }
  trace->accepted_at = options_.clock->Now();
  trace->working_bytes = reservation.Split(plan.working_bytes);
  trace->stream = std::make_shared<ResultStream>(
      ResultStreamOptions{.plan = std::move(submission.plan),
                          .deadline = submission.deadline,
                          .clock = options_.clock,
                          .wake = std::move(submission.wake),
                          .keep = std::move(submission.keep),
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
  for (Wave wave = AwaitWave({}); !wave.empty();
       wave = AwaitWave(std::move(wave))) {
    RunWave(wave, *executors.at(wave.front().trace->plan->model));
  }
}

Wave Scheduler::AwaitWave(Wave done) {
  // Freed without the lock: it may be much.
  std::vector<std::shared_ptr<AcceptedTrace>> dropped;
  std::unique_lock lock(mutex_);
  running_ = 0;
  queue_.PutBack(done);
  for (;;) {
    Wave wave = TakeWave(dropped);
    lock.unlock();
    done.clear();
    dropped.clear();
    if (!wave.empty()) return wave;
    lock.lock();
    if (queue_.size() > 0) continue;
    if (stopping_) return {};
    work_.wait(lock);
  }
}

Wave Scheduler::TakeWave(std::vector<std::shared_ptr<AcceptedTrace>>& dropped) {
  queue_.DropOver();
  dropped = queue_.TakeDropped();
  Wave wave = queue_.TakeWave(options_.max_wave_tokens);
  for (AcceptedTrace* trace : TracesOf(wave)) {
    if (!queue_.Holds(*trace)) ++running_;
    trace->stream->SetQueuePosition(0);
  }
  queue_.TellPositions(running_);
  return wave;
}

void Scheduler::RunWave(const Wave& wave, Executor& executor) {
  const std::set<AcceptedTrace*> traces = TracesOf(wave);
  const absl::Time started_at = options_.clock->Now();
  Begin(traces, started_at, executor);
  const std::unique_ptr<RunningWave> running =
      executor.Start({.runs = RunsOf(wave)});
  while (running->Step()) {
  }
  const std::vector<RowOutcome> outcomes = running->Finish();
  const absl::Duration compute_time = options_.clock->Now() - started_at;
  for (AcceptedTrace* trace : traces) {
    trace->compute_time += compute_time;
    // Rows that were dropped at the deadline say CANCELLED; this says why.
    trace->stream->FailIfExpired();
  }
  absl::Span<const RowOutcome> left = outcomes;
  for (const WaveEntry& entry : wave) {
    SettlePass(entry.pass, left.subspan(0, entry.pass.runs.size()),
               *entry.trace);
    left.remove_prefix(entry.pass.runs.size());
  }
  for (AcceptedTrace* trace : traces) {
    if (!trace->groups.all_ended()) continue;
    trace->memory.reset();
    trace->working_bytes = {};
    trace->stream->Finish(trace->started_at - trace->accepted_at,
                          trace->compute_time);
  }
}

}  // namespace phitap
