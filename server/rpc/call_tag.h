// What a call is called: in its answer, in the log and in the caller's own
// traces.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_RPC_CALL_TAG_H_
#define PHITAP_SERVER_RPC_CALL_TAG_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

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
  // What that trace is answered with; empty where there is none.
  std::string traceresponse;
  // Of the caller, once it has been admitted; empty where it has none.
  std::string identity;
};

// Names the call.
CallTag TagCall(const grpc::CallbackServerContext& context);

// Puts the names into the metadata before the answer: once, before the first
// message of a stream.
void NameAnswer(const CallTag& tag, grpc::CallbackServerContext& context);

// The status, as ToGrpc, to end a call with that no message has answered. An
// error has the names in the metadata that comes with it: clients try again
// only where nothing came before the refusal.
grpc::Status EndUnanswered(const CallTag& tag, const absl::Status& status,
                           grpc::CallbackServerContext& context);

// How a call of `method` has ended, as a line of the log.
void LogCall(absl::string_view method, const CallTag& tag,
             const absl::Status& status);

}  // namespace phitap

#endif  // PHITAP_SERVER_RPC_CALL_TAG_H_
