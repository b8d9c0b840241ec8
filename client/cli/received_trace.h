// A trace on its way to the command that asked for it.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CLI_RECEIVED_TRACE_H_
#define PHITAP_CLIENT_CLI_RECEIVED_TRACE_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cli/invocation.h"
#include "client/cpp/client.h"

namespace phitap::cli {

struct ReceivedTrace {
  client::Trace trace;
  // Of the whole call.
  absl::Duration elapsed;
};

// Traces with a progress line, for which it asks the server where a person is
// looking.
absl::StatusOr<ReceivedTrace> ReceiveTrace(const client::Client& client,
                                           v1::TraceRequest request,
                                           const Invocation& invocation);

// Runs and cells fail alone; a command fails if any did, with the first one's
// status.
absl::Status StatusOfRuns(const client::Trace& trace);

}  // namespace phitap::cli

#endif  // PHITAP_CLIENT_CLI_RECEIVED_TRACE_H_
