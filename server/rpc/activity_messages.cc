#include "server/rpc/activity_messages.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "server/rpc/admin_messages.h"
#include "server/rpc/memory_use.h"

namespace phitap {
namespace {

constexpr size_t kMostCallers = 100;

void SetTime(absl::Time time, google::protobuf::Timestamp& proto) {
  absl::Duration since = time - absl::UnixEpoch();
  proto.set_seconds(absl::IDivDuration(since, absl::Seconds(1), &since));
  proto.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(since)));
}

void SetDuration(absl::Duration duration, google::protobuf::Duration& proto) {
  proto.set_seconds(absl::IDivDuration(duration, absl::Seconds(1), &duration));
  proto.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(duration)));
}

void AddCallers(const EngineActivity& activity, const CallerTokens& tokens,
                v1::WatchActivityResponse& response) {
  std::vector<std::pair<std::string, CallerShare>> callers(
      activity.callers.begin(), activity.callers.end());
  std::stable_sort(
      callers.begin(), callers.end(), [](const auto& a, const auto& b) {
        const auto rank = [](const CallerShare& share) {
          return std::make_tuple(share.queued_requests + share.running_requests,
                                 share.undelivered_bytes);
        };
        return rank(a.second) > rank(b.second);
      });
  if (callers.size() > kMostCallers) callers.resize(kMostCallers);
  for (const auto& [caller, share] : callers) {
    v1::CallerActivity& told = *response.add_callers();
    told.set_caller(caller);
    told.set_queued_requests(share.queued_requests);
    told.set_running_requests(share.running_requests);
    told.set_undelivered_bytes(share.undelivered_bytes);
    told.set_tokens(tokens.Of(caller));
  }
}

void AddTotals(const Metrics& metrics, v1::WatchActivityResponse& response) {
  const auto total = [&](Metric metric, absl::string_view label = "",
                         absl::string_view value = "") {
    return static_cast<int64_t>(metrics.Total(metric, label, value));
  };
  const auto ended = [&](TraceOutcome outcome) {
    return total(Metric::kTraces, "outcome", Name(outcome));
  };
  response.set_finished_requests(ended(TraceOutcome::kFinished));
  response.set_failed_requests(ended(TraceOutcome::kFailed) +
                               ended(TraceOutcome::kExpired));
  response.set_refused_requests(total(Metric::kRefusals));
  response.set_token_layers(total(Metric::kTokenLayersComputed));
  response.set_saved_token_layers(total(Metric::kTokenLayersSaved));
  response.set_sent_bytes(total(Metric::kSentBytes));
}

void AddMemory(const ServiceParts& parts, v1::WatchActivityResponse& response) {
  for (const MemoryUse& use :
       ReadMemoryUse(*parts.scheduler, *parts.tensors, *parts.models)) {
    v1::MemoryUse& told = *response.add_memory();
    told.set_kind(std::string(use.kind));
    told.set_used_bytes(use.used_bytes);
    told.set_limit_bytes(use.limit_bytes);
  }
}

}  // namespace

v1::WatchActivityResponse DescribeActivity(const ServiceParts& parts) {
  const EngineActivity activity = parts.scheduler->activity();
  const absl::Time now = parts.clock->Now();
  v1::WatchActivityResponse response;
  SetTime(now, *response.mutable_time());
  SetDuration(now - parts.started_at, *response.mutable_uptime());
  response.set_version(parts.version);
  *response.mutable_models() =
      std::move(*DescribeStates(*parts.keeper).mutable_models());
  AddCallers(activity, parts.metrics->caller_tokens(), response);
  response.set_queued_requests(activity.queued_requests());
  response.set_waves(activity.waves.count);
  response.set_wave_tokens(activity.waves.tokens);
  AddTotals(parts.metrics->metrics(), response);
  AddMemory(parts, response);
  return response;
}

}  // namespace phitap
