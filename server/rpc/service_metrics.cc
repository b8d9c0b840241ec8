#include "server/rpc/service_metrics.h"

#include <array>

#include "absl/time/time.h"

namespace phitap {
namespace {

constexpr std::array<absl::string_view, 2> kCallerClasses = {"anonymous",
                                                             "named"};

absl::string_view ClassOf(const TraceRecord& record) {
  return kCallerClasses[record.tag.identity.empty() ? 0 : 1];
}

void Observe(prometheus::Histogram& histogram, absl::Duration time) {
  histogram.Observe(absl::ToDoubleSeconds(time));
}

}  // namespace

struct ServiceMetrics::TraceCounters {
  TraceCounters(Metrics& metrics, const std::string& model,
                absl::string_view caller)
      : finished(Ended(metrics, model, caller, TraceOutcome::kFinished)),
        failed(Ended(metrics, model, caller, TraceOutcome::kFailed)),
        cancelled(Ended(metrics, model, caller, TraceOutcome::kCancelled)),
        expired(Ended(metrics, model, caller, TraceOutcome::kExpired)),
        runs(metrics.CounterOf(Metric::kRuns, {model, caller})),
        failed_runs(metrics.CounterOf(Metric::kFailedRuns, {model, caller})),
        prompt_tokens(
            metrics.CounterOf(Metric::kTokens, {model, caller, "prompt"})),
        generated_tokens(
            metrics.CounterOf(Metric::kTokens, {model, caller, "generated"})),
        computed(
            metrics.CounterOf(Metric::kTokenLayersComputed, {model, caller})),
        saved(metrics.CounterOf(Metric::kTokenLayersSaved, {model, caller})),
        sent_bytes(metrics.CounterOf(Metric::kSentBytes, {model, caller})),
        plan(metrics.HistogramOf(Metric::kStageSeconds, {model, "plan"})),
        queue(metrics.HistogramOf(Metric::kStageSeconds, {model, "queue"})),
        compute(metrics.HistogramOf(Metric::kStageSeconds, {model, "compute"})),
        delivery(
            metrics.HistogramOf(Metric::kStageSeconds, {model, "delivery"})),
        whole(metrics.HistogramOf(Metric::kStageSeconds, {model, "whole"})) {}

  static prometheus::Counter& Ended(Metrics& metrics, const std::string& model,
                                    absl::string_view caller,
                                    TraceOutcome outcome) {
    return metrics.CounterOf(Metric::kTraces, {model, caller, Name(outcome)});
  }

  prometheus::Counter& OfOutcome(TraceOutcome outcome) {
    switch (outcome) {
      case TraceOutcome::kFinished:
        return finished;
      case TraceOutcome::kCancelled:
        return cancelled;
      case TraceOutcome::kExpired:
        return expired;
      default:
        return failed;
    }
  }

  prometheus::Counter& finished;
  prometheus::Counter& failed;
  prometheus::Counter& cancelled;
  prometheus::Counter& expired;
  prometheus::Counter& runs;
  prometheus::Counter& failed_runs;
  prometheus::Counter& prompt_tokens;
  prometheus::Counter& generated_tokens;
  prometheus::Counter& computed;
  prometheus::Counter& saved;
  prometheus::Counter& sent_bytes;
  prometheus::Histogram& plan;
  prometheus::Histogram& queue;
  prometheus::Histogram& compute;
  prometheus::Histogram& delivery;
  prometheus::Histogram& whole;
};

ServiceMetrics::ServiceMetrics(Metrics& metrics) : metrics_(metrics) {
  // All of them, so that the first refusal is a rise and not a beginning.
  for (RefusalReason reason : kRefusalReasons) {
    for (absl::string_view caller : kCallerClasses) {
      refusals_[{reason, caller}] =
          &metrics.CounterOf(Metric::kRefusals, {Name(reason), caller});
    }
  }
}

ServiceMetrics::~ServiceMetrics() = default;

void ServiceMetrics::CountCall(absl::string_view method,
                               const absl::Status& status) {
  prometheus::Counter* counter = nullptr;
  {
    std::lock_guard lock(mutex_);
    prometheus::Counter*& known =
        calls_[CallKey(std::string(method), status.code())];
    if (known == nullptr) {
      known = &metrics_.CounterOf(
          Metric::kCalls, {method, absl::StatusCodeToString(status.code())});
    }
    counter = known;
  }
  counter->Increment();
}

ServiceMetrics::TraceCounters& ServiceMetrics::CountersOf(
    const TraceRecord& record) {
  std::lock_guard lock(mutex_);
  std::unique_ptr<TraceCounters>& counters =
      traces_[TraceKey(record.model, ClassOf(record))];
  if (counters == nullptr) {
    counters = std::make_unique<TraceCounters>(metrics_, record.model,
                                               ClassOf(record));
  }
  return *counters;
}

void ServiceMetrics::CountTrace(const TraceRecord& record) {
  CountCall("Trace", record.status);
  const TraceOutcome outcome = record.outcome();
  if (outcome == TraceOutcome::kRefused) {
    refusals_.at({RefusalReasonOf(record.status), ClassOf(record)})
        ->Increment();
  }
  if (!record.accepted) return;
  TraceCounters& counters = CountersOf(record);
  counters.OfOutcome(outcome).Increment();
  const TraceTotals& totals = record.totals;
  counters.sent_bytes.Increment(static_cast<double>(totals.size_bytes));
  if (outcome != TraceOutcome::kFinished) return;
  caller_tokens_.Add(record.caller,
                     totals.prompt_tokens + totals.generated_tokens);
  counters.runs.Increment(totals.run_count);
  counters.failed_runs.Increment(totals.failed_run_count);
  counters.prompt_tokens.Increment(static_cast<double>(totals.prompt_tokens));
  counters.generated_tokens.Increment(
      static_cast<double>(totals.generated_tokens));
  counters.computed.Increment(
      static_cast<double>(totals.token_layers_computed));
  counters.saved.Increment(static_cast<double>(totals.token_layers_saved));
  Observe(counters.plan, record.plan_time);
  Observe(counters.queue, totals.queue_time);
  Observe(counters.compute, totals.compute_time);
  Observe(counters.delivery, record.delivery_time);
  Observe(counters.whole, record.whole_time);
}

}  // namespace phitap
