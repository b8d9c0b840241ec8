// What is counted of calls.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_RPC_SERVICE_METRICS_H_
#define PHITAP_SERVER_RPC_SERVICE_METRICS_H_

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/base/refusal_reason.h"
#include "server/observe/metrics.h"
#include "server/rpc/caller_tokens.h"
#include "server/rpc/trace_record.h"

namespace phitap {

// Labels come from what the server knows: methods, codes, models that were
// found, and of the caller no more than whether it has said who it is.
// Thread-safe.
class ServiceMetrics {
 public:
  // `metrics` outlives it.
  explicit ServiceMetrics(Metrics& metrics);
  ~ServiceMetrics();

  // `method` is one of the services' own names.
  void CountCall(absl::string_view method, const absl::Status& status);
  // Its call and what became of it.
  void CountTrace(const TraceRecord& record);

  const Metrics& metrics() const { return metrics_; }
  const CallerTokens& caller_tokens() const { return caller_tokens_; }

 private:
  // The counters of one model and class of caller.
  struct TraceCounters;
  using CallKey = std::pair<std::string, absl::StatusCode>;
  using TraceKey = std::pair<std::string, absl::string_view>;

  TraceCounters& CountersOf(const TraceRecord& record);

  Metrics& metrics_;
  CallerTokens caller_tokens_;
  // By reason and class of caller.
  std::map<std::pair<RefusalReason, absl::string_view>, prometheus::Counter*>
      refusals_;
  std::mutex mutex_;  // Guards the maps, not what they point to.
  std::map<CallKey, prometheus::Counter*> calls_;
  std::map<TraceKey, std::unique_ptr<TraceCounters>> traces_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_RPC_SERVICE_METRICS_H_
