// What became of one Trace call: for the log and the metrics.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_RPC_TRACE_RECORD_H_
#define PHITAP_SERVER_RPC_TRACE_RECORD_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/rpc/call_tag.h"
#include "server/rpc/trace_messages.h"

namespace phitap {

enum class TraceOutcome { kRefused, kFinished, kFailed, kCancelled, kExpired };

// "finished".
absl::string_view Name(TraceOutcome outcome);

struct TraceRecord {
  CallTag tag;
  // See Caller::key.
  std::string caller;
  // Empty where it was refused before the model was known.
  std::string model;
  absl::Status status;
  // Whether it was taken on.
  bool accepted = false;
  TraceTotals totals;
  // From the call's beginning until it was taken on.
  absl::Duration plan_time;
  // From the last value to the end of the call; 0 where it did not get there.
  absl::Duration delivery_time;
  absl::Duration whole_time;

  TraceOutcome outcome() const;
};

void LogTrace(const TraceRecord& record);

}  // namespace phitap

#endif  // PHITAP_SERVER_RPC_TRACE_RECORD_H_
