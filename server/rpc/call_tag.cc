#include "server/rpc/call_tag.h"

#include <optional>

#include "server/base/field_error.h"
#include "server/observe/log.h"
#include "server/rpc/grpc_status.h"
#include "server/rpc/request_id.h"
#include "server/rpc/trace_context.h"

namespace phitap {
namespace {

std::optional<TraceContext> ContextOf(
    const grpc::CallbackServerContext& context) {
  const auto [first, last] =
      context.client_metadata().equal_range(kTraceparentMetadata);
  // Of several none can be trusted.
  if (first == last || std::next(first) != last) return std::nullopt;
  return ParseTraceparent({first->second.data(), first->second.size()});
}

}  // namespace

CallTag TagCall(const grpc::CallbackServerContext& context) {
  CallTag tag = {.request_id = NewRequestId()};
  if (const std::optional<TraceContext> caller = ContextOf(context)) {
    tag.trace_id = caller->trace_id;
    tag.traceresponse = TraceResponse(*caller, tag.request_id);
  }
  return tag;
}

void NameAnswer(const CallTag& tag, grpc::CallbackServerContext& context) {
  context.AddInitialMetadata(kRequestIdMetadata, tag.request_id);
  if (!tag.traceresponse.empty()) {
    context.AddInitialMetadata(kTraceresponseMetadata, tag.traceresponse);
  }
}

grpc::Status EndUnanswered(const CallTag& tag, const absl::Status& status,
                           grpc::CallbackServerContext& context) {
  if (status.ok()) {
    NameAnswer(tag, context);
    return grpc::Status::OK;
  }
  context.AddTrailingMetadata(kRequestIdMetadata, tag.request_id);
  if (!tag.traceresponse.empty()) {
    context.AddTrailingMetadata(kTraceresponseMetadata, tag.traceresponse);
  }
  return ToGrpc(status, context);
}

void LogCall(absl::string_view method, const CallTag& tag,
             const absl::Status& status) {
  Log(status.ok() ? LogLevel::kDebug : LogLevel::kInfo, "call ended",
      {{log_field::kRequest, tag.request_id},
       {log_field::kTraceId, tag.trace_id},
       {log_field::kIdentity, tag.identity},
       {log_field::kMethod, std::string(method)},
       {log_field::kCode, absl::StatusCodeToString(status.code())},
       {log_field::kField, FieldOf(status)}});
}

}  // namespace phitap
