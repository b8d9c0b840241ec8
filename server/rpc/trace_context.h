// Where a call stands in its caller's distributed trace (W3C Trace Context).
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_RPC_TRACE_CONTEXT_H_
#define PHITAP_SERVER_RPC_TRACE_CONTEXT_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace phitap {

struct TraceContext {
  // 32 lower-case hexadecimal digits, not all zero.
  std::string trace_id;
  // Two hexadecimal digits.
  std::string flags;
};

// Reads the value of `traceparent`; none where it is not exactly what the
// standard allows (of a version after 00 the fields known here are read).
std::optional<TraceContext> ParseTraceparent(absl::string_view value);

// The value of `traceresponse`: the caller's trace, with the call's own id (16
// hexadecimal digits).
std::string TraceResponse(const TraceContext& context,
                          absl::string_view span_id);

}  // namespace phitap

#endif  // PHITAP_SERVER_RPC_TRACE_CONTEXT_H_
