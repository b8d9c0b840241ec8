#include "server/schedule/scheduler.h"

#include <algorithm>
#include <future>
#include <limits>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/refusal_reason.h"
#include "server/base/retry_hint.h"
#include "server/base/status_macros.h"
#include "server/schedule/heap_trim.h"

namespace phitap {
namespace {

constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max();

void ReplaceZero(int64_t& limit, int64_t bytes) {
  if (limit == 0) limit = bytes;
}

// Whether each of its groups can be computed, at least alone.
absl::Status CheckWorkspace(const TracePlan& plan, int64_t max_bytes) {
  int64_t largest = 0;
  for (const RunGroup& group : plan.groups) {
    largest = std::max(largest, group.workspace_bytes);
  }
  if (largest <= max_bytes - plan.workspace_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the request needs ", plan.workspace_bytes + largest,
                   " bytes to be computed in, and the server has at most ",
                   max_bytes, "; ask for less"));
}

// Each request of the wave once.
std::set<const AcceptedTrace*> TracesOf(const GatheredWave& wave) {
  std::set<const AcceptedTrace*> traces;
  for (const WaveEntry& entry : wave.entries) traces.insert(entry.trace.get());
  return traces;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Scheduler>> Scheduler::Start(
    SchedulerOptions options, LoadExecutors load) {
  auto scheduler =
      std::unique_ptr<Scheduler>(new Scheduler(std::move(options)));
  std::promise<absl::Status> loaded;
  std::future<absl::Status> load_status = loaded.get_future();
  scheduler->compute_thread_ =
      std::thread([scheduler = scheduler.get(), load = std::move(load),
                   loaded = std::move(loaded)]() mutable {
        absl::StatusOr<ExecutorMap> executors = std::exchange(load, nullptr)();
        if (executors.ok()) scheduler->Begin(*std::move(executors));
        loaded.set_value(executors.status());
        if (executors.ok()) scheduler->Serve();
      });
  RETURN_IF_ERROR(load_status.get());
  return scheduler;
}

Scheduler::Scheduler(SchedulerOptions options)
    : options_(std::move(options)),
      errands_([this] {
        // Whoever is about to wait for it sees the errand or this call.
        { std::lock_guard lock(mutex_); }
        work_.notify_one();
      }),
      queue_(options_.queue) {}

void Scheduler::Begin(ExecutorMap executors) {
  for (auto& [key, executor] : executors) {
    executors_.Add(key, std::move(executor));
  }
  DecideMemory();
  rows_.emplace(RowPlannerOptions{
      .max_root_bytes = memory_.max_root_bytes,
      .sharing = options_.sharing,
      .root_bytes = [this](const std::string& executor, int layers,
                           int64_t tokens) {
        return executors_.Find(executor)->RootBytes(layers, tokens);
      }});
}

void Scheduler::DecideMemory() {
  memory_ = options_.decide_memory == nullptr ? options_.memory
                                              : options_.decide_memory();
  ReplaceZero(memory_.max_undelivered_bytes, kUnbounded);
  ReplaceZero(memory_.max_caller_bytes, memory_.max_undelivered_bytes / 2);
  ReplaceZero(memory_.max_workspace_bytes, kUnbounded);
  ReplaceZero(memory_.max_wave_bytes, kUnbounded);
  budget_.emplace(
      ByteBudgetOptions{.limit_bytes = memory_.max_undelivered_bytes,
                        .caller_limit_bytes = memory_.max_caller_bytes,
                        .purpose = "answers and what is computed for them"});
}

Scheduler::~Scheduler() { Drain(); }

absl::StatusOr<std::shared_ptr<ResultStream>> Scheduler::Submit(
    Submission submission) {
  absl::StatusOr<std::shared_ptr<AcceptedTrace>> trace =
      Admit(std::move(submission));
  // Once the compute thread has ended no executor is there.
  if (!trace.ok() && !absl::IsAborted(trace.status())) {
    return WithRetryHint(trace.status(), pace_.hint());
  }
  std::shared_ptr<ResultStream> stream;
  {
    std::lock_guard lock(mutex_);
    if (stopping_) {
      return WithRefusalReason(absl::UnavailableError("the server is stopping"),
                               RefusalReason::kStopping);
    }
    RETURN_IF_ERROR(trace.status());
    stream = (*trace)->stream;
    const absl::Status pushed = queue_.Push(*std::move(trace));
    if (!pushed.ok()) return WithRetryHint(pushed, pace_.hint());
    queue_.TellPositions(CountRunning());
  }
  work_.notify_one();
  return stream;
}

absl::StatusOr<std::shared_ptr<AcceptedTrace>> Scheduler::Admit(
    Submission submission) {
  const TracePlan& plan = *submission.plan;
  RETURN_IF_ERROR(CheckWorkspace(plan, memory_.max_workspace_bytes));
  ASSIGN_OR_RETURN(
      ByteBudget::Reservation reservation,
      budget_->Reserve(plan.storage_bytes + plan.working_bytes,
                       submission.caller, submission.max_caller_bytes));
  ASSIGN_OR_RETURN(ExecutorTable::Use use, executors_.Take(plan.model));
  auto trace = std::make_shared<AcceptedTrace>(submission.plan);
  trace->use = std::move(use);
  if (!trace->groups.has_ready()) {
    return absl::InternalError("the plan has no group to begin with");
  }
  trace->caller = std::move(submission.caller);
  trace->accepted_at = options_.clock->Now();
  trace->working_bytes = reservation.Split(plan.working_bytes);
  trace->stream = std::make_shared<ResultStream>(
      ResultStreamOptions{.plan = std::move(submission.plan),
                          .deadline = submission.deadline,
                          .clock = options_.clock,
                          .wake = std::move(submission.wake),
                          .keep = std::move(submission.keep),
                          .reservation = std::move(reservation)});
  return trace;
}

void Scheduler::AddExecutor(const std::string& key,
                            std::unique_ptr<Executor> executor) {
  executors_.Add(key, std::move(executor));
}

void Scheduler::RemoveExecutor(const std::string& key) {
  executors_.Close(key);
  // Destroyed here: that may take a while.
  std::unique_ptr<Executor> executor;
  // Where the compute thread has ended, it has freed all.
  RunBetweenSteps([&] {
    rows_->ForgetAll(key);
    executor = executors_.Remove(key);
  }).IgnoreError();
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

int Scheduler::CountRunning() const {
  int count = 0;
  for (const auto& [trace, waves] : under_way_) {
    if (!queue_.Holds(*trace)) ++count;
  }
  return count;
}

EngineActivity Scheduler::activity() const {
  EngineActivity activity = {.waves = {.count = wave_count_,
                                       .tokens = wave_tokens_,
                                       .workspace_bytes = workspace_bytes_},
                             .undelivered_bytes = undelivered_bytes(),
                             .root_bytes = root_bytes_};
  for (const auto& [caller, bytes] : budget_->reserved_by_caller()) {
    activity.callers[caller].undelivered_bytes = bytes;
  }
  std::lock_guard lock(mutex_);
  for (const auto& [caller, count] : queue_.count_by_caller()) {
    activity.callers[caller].queued_requests = count;
  }
  for (const auto& [trace, waves] : under_way_) {
    if (queue_.Holds(*trace)) continue;
    ++activity.callers[trace->caller].running_requests;
  }
  return activity;
}

void Scheduler::Show(const WavesUnderWay& waves) {
  wave_count_ = waves.count;
  wave_tokens_ = waves.tokens;
  workspace_bytes_ = waves.workspace_bytes;
}

void Scheduler::Serve() {
  Metrics unread;
  EngineMetrics metrics(options_.metrics == nullptr ? unread
                                                    : *options_.metrics);
  const auto start = [&](GatheredWave wave) {
    const std::string& executor = wave.entries.front().trace->plan->model;
    const WaveParts parts = {.rows = &*rows_,
                             .clock = options_.clock,
                             .pace = &pace_,
                             .metrics = &metrics.Of(ModelNameOf(executor))};
    return std::make_unique<WaveUnderWay>(std::move(wave), parts);
  };
  WaveStack waves({.max_tokens = options_.max_wave_tokens,
                   .max_joined_bytes = memory_.max_wave_bytes,
                   .max_workspace_bytes = memory_.max_workspace_bytes});
  HeapTrim heap_trim(options_.clock->Now());
  while (!waves.empty() || AwaitWork()) {
    errands_.RunAll();
    MakeStep(waves, start);
    // While nothing is computed nothing grows older: a caller that comes back
    // after a pause finds what it left.
    if (heap_trim.TrimIfDue(options_.clock->Now())) rows_->GrowOlder();
    ForgetRoots();
    root_bytes_ = rows_->root_bytes();
  }
  errands_.Close();
  rows_.reset();
  executors_.Clear();
}

void Scheduler::ForgetRoots() {
  for (const ForgottenRoot& forgotten : rows_->TakeForgotten()) {
    executors_.Find(forgotten.executor)->ForgetRoot(forgotten.root);
  }
}

void Scheduler::MakeStep(WaveStack& waves, const StartWave& start) {
  for (std::unique_ptr<WaveUnderWay>& given_up : waves.DropOver()) {
    PutBack(std::move(given_up));
  }
  if (const std::optional<WaveLimits> room = waves.Room()) {
    GatheredWave wave = TakeWave(*room);
    if (!wave.empty()) waves.Push(start(std::move(wave)));
  }
  Show(waves.under_way());
  if (waves.empty()) return;
  if (std::unique_ptr<WaveUnderWay> ended = waves.Step()) {
    Show(waves.under_way());
    PutBack(std::move(ended));
  }
}

bool Scheduler::AwaitWork() {
  std::unique_lock lock(mutex_);
  work_.wait(lock, [&] {
    return queue_.size() > 0 || stopping_ || !errands_.empty();
  });
  return queue_.size() > 0 || !stopping_;
}

GatheredWave Scheduler::TakeWave(const WaveLimits& room) {
  // Freed without the lock: it may be much.
  std::vector<std::shared_ptr<AcceptedTrace>> dropped;
  std::lock_guard lock(mutex_);
  queue_.DropOver();
  dropped = queue_.TakeDropped();
  GatheredWave wave = queue_.TakeWave(room);
  for (const AcceptedTrace* trace : TracesOf(wave)) {
    ++under_way_[trace];
    trace->stream->SetQueuePosition(0);
  }
  if (!wave.empty()) queue_.TellPositions(CountRunning());
  return wave;
}

void Scheduler::PutBack(std::unique_ptr<WaveUnderWay> ended) {
  std::lock_guard lock(mutex_);
  for (const AcceptedTrace* trace : TracesOf(ended->wave())) {
    const auto found = under_way_.find(trace);
    if (--found->second == 0) under_way_.erase(found);
  }
  queue_.PutBack(ended->wave());
}

}  // namespace phitap
