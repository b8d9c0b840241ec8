#include "server/rpc/trace_record.h"

#include <cstdint>

#include "server/base/field_error.h"
#include "server/base/refusal_reason.h"
#include "server/observe/log.h"

namespace phitap {

absl::string_view Name(TraceOutcome outcome) {
  switch (outcome) {
    case TraceOutcome::kRefused:
      return "refused";
    case TraceOutcome::kFinished:
      return "finished";
    case TraceOutcome::kFailed:
      return "failed";
    case TraceOutcome::kCancelled:
      return "cancelled";
    case TraceOutcome::kExpired:
      return "expired";
  }
  return "failed";
}

TraceOutcome TraceRecord::outcome() const {
  if (status.ok()) return TraceOutcome::kFinished;
  if (absl::IsCancelled(status)) return TraceOutcome::kCancelled;
  if (!accepted) return TraceOutcome::kRefused;
  return absl::IsDeadlineExceeded(status) ? TraceOutcome::kExpired
                                          : TraceOutcome::kFailed;
}

void LogTrace(const TraceRecord& record) {
  const bool our_fault = absl::IsInternal(record.status);
  const bool refused = record.outcome() == TraceOutcome::kRefused;
  const TraceTotals& totals = record.totals;
  Log(our_fault ? LogLevel::kError : LogLevel::kInfo, "trace ended",
      {{log_field::kRequest, record.tag.request_id},
       {log_field::kTraceId, record.tag.trace_id},
       {log_field::kIdentity, record.tag.identity},
       {log_field::kModel, record.model},
       {log_field::kCode, absl::StatusCodeToString(record.status.code())},
       {log_field::kRefusal,
        refused ? std::string(Name(RefusalReasonOf(record.status))) : ""},
       {log_field::kField, FieldOf(record.status)},
       {log_field::kRuns, int64_t{totals.run_count}},
       {log_field::kTokens, totals.prompt_tokens + totals.generated_tokens},
       {log_field::kTensors, int64_t{totals.tensor_count}},
       {log_field::kBytes, totals.size_bytes},
       {log_field::kPlanSeconds, absl::ToDoubleSeconds(record.plan_time)},
       {log_field::kQueueSeconds, absl::ToDoubleSeconds(totals.queue_time)},
       {log_field::kComputeSeconds, absl::ToDoubleSeconds(totals.compute_time)},
       {log_field::kDeliverySeconds,
        absl::ToDoubleSeconds(record.delivery_time)},
       {log_field::kSeconds, absl::ToDoubleSeconds(record.whole_time)}});
}

}  // namespace phitap
