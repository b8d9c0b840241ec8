// What a call is called: in its answer, in the log and in the caller's own
// traces.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_RPC_CALL_TAG_H_
#define PHITAP_SERVER_RPC_CALL_TAG_H_

#include <grpcpp/server_context.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace phitap {

// Metadata of the call: one `traceparent` is understood, and answered with.
inline constexpr char kTraceparentMetadata[] = "traceparent";
inline constexpr char kTraceresponseMetadata[] = "traceresponse";

struct CallTag {
  std::string request_id;
  // Of the caller's trace; empty where it sent none that can be read.
  std::string trace_id;
  // Of the caller, once it has been admitted; empty where it has none.
  std::string identity;
};

// Names the call, and puts that into its initial metadata.
CallTag TagCall(grpc::CallbackServerContext& context);

// How a call of `method` has ended, as a line of the log.
void LogCall(absl::string_view method, const CallTag& tag,
             const absl::Status& status);

}  // namespace phitap

#endif  // PHITAP_SERVER_RPC_CALL_TAG_H_
