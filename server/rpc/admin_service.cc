#include "server/rpc/admin_service.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/observe/log.h"
#include "server/plan/refuse_unknown.h"
#include "server/rpc/activity_reactor.h"
#include "server/rpc/admin_messages.h"
#include "server/rpc/call_tag.h"
#include "server/rpc/model_progress_reactor.h"

namespace phitap {

namespace {

// An administrator's call.
struct AdminCall {
  const char* method = nullptr;
  CallTag tag;
  // Who calls.
  std::string caller;
};

// Says who did what.
void RecordEnd(const AdminCall& call, const absl::Status& status,
               ServiceMetrics& metrics) {
  metrics.CountCall(call.method, status);
  Log(LogLevel::kInfo, "administration",
      {{log_field::kRequest, call.tag.request_id},
       {log_field::kTraceId, call.tag.trace_id},
       {log_field::kMethod, call.method},
       {log_field::kCaller, call.caller},
       {log_field::kCode, absl::StatusCodeToString(status.code())},
       {log_field::kField, FieldOf(status)}});
}

}  // namespace

grpc::ServerUnaryReactor* AdminService::Answer(
    const char* method, grpc::CallbackServerContext& context,
    std::function<absl::Status()> answer) {
  grpc::ServerUnaryReactor* reactor = context.DefaultReactor();
  AdminCall call = {
      .method = method, .tag = TagCall(context), .caller = context.peer()};
  const absl::StatusOr<Caller> caller =
      parts_.authenticator->Admit(context, Role::kAdmin);
  if (!caller.ok()) {
    RecordEnd(call, caller.status(), *parts_.metrics);
    reactor->Finish(EndUnanswered(call.tag, caller.status(), context));
    return reactor;
  }
  call.caller = caller->key;
  // The call's messages and context live until Finish.
  const auto finish = [=, this, &context](const absl::Status& status) {
    RecordEnd(call, status, *parts_.metrics);
    reactor->Finish(EndUnanswered(call.tag, status, context));
  };
  const absl::Status posted = parts_.administration->TryPost(
      [finish, answer = std::move(answer)] { finish(answer()); });
  if (!posted.ok()) finish(posted);
  return reactor;
}

template <typename Response>
grpc::ServerWriteReactor<Response>* AdminService::Tell(
    const char* method, grpc::CallbackServerContext& context,
    std::function<absl::Status(const ModelObserver&)> work) {
  AdminCall call = {
      .method = method, .tag = TagCall(context), .caller = context.peer()};
  const auto reactor = ModelProgressReactor<Response>::Make(call.tag, context);
  const absl::StatusOr<Caller> caller =
      parts_.authenticator->Admit(context, Role::kAdmin);
  if (caller.ok()) call.caller = caller->key;
  const auto end = [=, this](const absl::Status& status) {
    RecordEnd(call, status, *parts_.metrics);
    reactor->End(status);
  };
  if (!caller.ok()) {
    end(caller.status());
    return reactor.get();
  }
  const absl::Status posted =
      parts_.administration->TryPost([=, this, work = std::move(work)] {
        end(work([&](const ModelState& state) {
          reactor->Tell(DescribeState(state, *parts_.keeper));
        }));
      });
  if (!posted.ok()) end(posted);
  return reactor.get();
}

grpc::ServerUnaryReactor* AdminService::ListModelStates(
    grpc::CallbackServerContext* context,
    const v1::ListModelStatesRequest* request,
    v1::ListModelStatesResponse* response) {
  return Answer("ListModelStates", *context, [=, this]() -> absl::Status {
    RETURN_IF_ERROR(RefuseUnknown(*request, ""));
    *response = DescribeStates(*parts_.keeper);
    return absl::OkStatus();
  });
}

grpc::ServerWriteReactor<v1::LoadModelResponse>* AdminService::LoadModel(
    grpc::CallbackServerContext* context, const v1::LoadModelRequest* request) {
  // The message lives only as long as the call, and the work may last longer.
  return Tell<v1::LoadModelResponse>(
      "LoadModel", *context,
      [this, request = *request](const ModelObserver& tell) -> absl::Status {
        RETURN_IF_ERROR(RefuseUnknown(request, ""));
        return parts_.keeper->Load(
            {.name = request.name(), .path = request.path()}, tell);
      });
}

grpc::ServerUnaryReactor* AdminService::UnloadModel(
    grpc::CallbackServerContext* context, const v1::UnloadModelRequest* request,
    v1::UnloadModelResponse* /*response*/) {
  return Answer("UnloadModel", *context, [=, this]() -> absl::Status {
    RETURN_IF_ERROR(RefuseUnknown(*request, ""));
    return parts_.keeper->Unload(request->name());
  });
}

grpc::ServerWriteReactor<v1::ReloadModelResponse>* AdminService::ReloadModel(
    grpc::CallbackServerContext* context,
    const v1::ReloadModelRequest* request) {
  return Tell<v1::ReloadModelResponse>(
      "ReloadModel", *context,
      [this, request = *request](const ModelObserver& tell) -> absl::Status {
        RETURN_IF_ERROR(RefuseUnknown(request, ""));
        return parts_.keeper->Reload(request.name(), tell);
      });
}

grpc::ServerWriteReactor<v1::WatchActivityResponse>*
AdminService::WatchActivity(grpc::CallbackServerContext* context,
                            const v1::WatchActivityRequest* request) {
  return ActivityReactor::Start(parts_, *context, *request);
}

grpc::ServerUnaryReactor* AdminService::SetLogLevel(
    grpc::CallbackServerContext* context, const v1::SetLogLevelRequest* request,
    v1::SetLogLevelResponse* /*response*/) {
  return Answer("SetLogLevel", *context, [=]() -> absl::Status {
    RETURN_IF_ERROR(RefuseUnknown(*request, ""));
    const std::optional<LogLevel> level = FromWire(request->level());
    if (!level.has_value()) {
      return InvalidField({.field = "level",
                           .problem = "not set",
                           .valid = "LOG_VERBOSITY_DEBUG, LOG_VERBOSITY_INFO, "
                                    "LOG_VERBOSITY_WARNING or "
                                    "LOG_VERBOSITY_ERROR"});
    }
    phitap::SetLogLevel(*level);
    return absl::OkStatus();
  });
}

grpc::ServerUnaryReactor* AdminService::DrainServer(
    grpc::CallbackServerContext* context, const v1::DrainServerRequest* request,
    v1::DrainServerResponse* /*response*/) {
  return Answer("DrainServer", *context, [=, this]() -> absl::Status {
    RETURN_IF_ERROR(RefuseUnknown(*request, ""));
    parts_.ask_to_stop();
    return absl::OkStatus();
  });
}

}  // namespace phitap
