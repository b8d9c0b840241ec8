#include "server/schedule/wave_under_way.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "server/schedule/settle_pass.h"

namespace phitap {
namespace {

// Each request of the wave once.
std::set<AcceptedTrace*> TracesOf(const GatheredWave& wave) {
  std::set<AcceptedTrace*> traces;
  for (const WaveEntry& entry : wave.entries) traces.insert(entry.trace.get());
  return traces;
}

// A request's memory with the bytes that are reserved for it.
struct CountedMemory {
  ByteBudget::Reservation bytes;
  // After them, hence freed before they are given back.
  std::shared_ptr<TraceMemory> memory;
};

}  // namespace

WaveUnderWay::WaveUnderWay(GatheredWave wave, const WaveParts& parts)
    : parts_(parts),
      wave_(std::move(wave)),
      executor_(wave_.entries.front().trace->use.executor()),
      traces_(TracesOf(wave_)),
      started_at_(parts_.clock->Now()) {
  for (AcceptedTrace* trace : traces_) Begin(*trace);
  WavePlan plan = parts_.rows->Plan(Runs());
  rows_ = plan.rows;
  work_ = WaveWork(plan, wave_.entries.front().pass.phase);
  running_ = executor_.Start(std::move(plan));
  parts_.metrics->CountWave(wave_.entries.front().pass.phase,
                            wave_.size.tokens);
  CountTime(started_at_);
}

std::vector<CallerRun> WaveUnderWay::Runs() const {
  std::vector<CallerRun> runs;
  for (const WaveEntry& entry : wave_.entries) {
    const AcceptedTrace& trace = *entry.trace;
    const RunGroup& group = trace.plan->groups[entry.pass.group];
    for (int run : entry.pass.runs) {
      runs.push_back({.run = {.plan = trace.plan,
                              .run = run,
                              .sink = trace.stream,
                              .memory = trace.memory,
                              .gradient_pass = group.gradient_pass},
                      .caller = trace.caller,
                      .pass = entry.pass.phase == PassPhase::kToken
                                  ? PassKind::kGenerated
                                  : PassKind::kPrompt});
    }
  }
  return runs;
}

void WaveUnderWay::Begin(AcceptedTrace& trace) {
  if (trace.started_at != absl::InfiniteFuture()) return;
  trace.started_at = started_at_;
  parts_.metrics->CountWait(trace.started_at - trace.accepted_at);
  auto counted = std::make_shared<CountedMemory>();
  counted->bytes = std::move(trace.working_bytes);
  counted->memory = executor_.Begin(trace.plan);
  trace.memory = {counted, counted->memory.get()};
}

void WaveUnderWay::CountTime(absl::Time before) {
  const absl::Duration taken = parts_.clock->Now() - before;
  compute_time_ += taken;
  parts_.metrics->CountTime(taken);
}

bool WaveUnderWay::Step() {
  const absl::Time before = parts_.clock->Now();
  const bool more = running_->Step();
  work_.StepDone();
  parts_.metrics->CountStep();
  CountTime(before);
  return more;
}

void WaveUnderWay::Finish() {
  const absl::Time before = parts_.clock->Now();
  const std::vector<RowOutcome> outcomes = running_->Finish();
  End(running_->kept_roots());
  CountTime(before);
  Settle(outcomes);
}

void WaveUnderWay::End(const std::vector<RootId>& kept) {
  running_.reset();
  parts_.rows->Ended(rows_, kept);
}

void WaveUnderWay::GiveUp() {
  End({});
  std::vector<RowOutcome> outcomes;
  for (const WaveEntry& entry : wave_.entries) {
    outcomes.resize(outcomes.size() + entry.pass.runs.size(),
                    {.status = absl::CancelledError("nobody waits for it")});
  }
  Settle(outcomes);
}

bool WaveUnderWay::DropOver() {
  bool any_left = false;
  for (AcceptedTrace* trace : traces_) {
    trace->stream->FailIfExpired();
    if (trace->stream->over()) {
      trace->memory.reset();
    } else {
      any_left = true;
    }
  }
  return any_left;
}

void WaveUnderWay::Settle(const std::vector<RowOutcome>& outcomes) {
  for (AcceptedTrace* trace : traces_) {
    trace->compute_time += compute_time_;
    // Rows that were dropped at the deadline say CANCELLED; this says why.
    trace->stream->FailIfExpired();
  }
  absl::Span<const RowOutcome> left = outcomes;
  for (const WaveEntry& entry : wave_.entries) {
    SettlePass(entry.pass, left.subspan(0, entry.pass.runs.size()),
               *entry.trace);
    left.remove_prefix(entry.pass.runs.size());
  }
  for (AcceptedTrace* trace : traces_) {
    if (!trace->groups.all_ended()) continue;
    trace->memory.reset();
    parts_.pace->Note(parts_.clock->Now() - trace->accepted_at);
    trace->stream->Finish(trace->started_at - trace->accepted_at,
                          trace->compute_time);
  }
}

}  // namespace phitap
