#include "server/rpc/admin_service.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/observe/log.h"
#include "server/plan/refuse_unknown.h"
#include "server/rpc/admin_messages.h"
#include "server/rpc/grpc_status.h"
#include "server/rpc/model_progress_reactor.h"

namespace phitap {

namespace {

// Who did what.
void LogCall(const char* method, const std::string& caller,
             const absl::Status& status) {
  Log(LogLevel::kInfo, "administration",
      {{log_field::kMethod, method},
       {log_field::kCaller, caller},
       {log_field::kCode, absl::StatusCodeToString(status.code())},
       {log_field::kField, FieldOf(status)}});
}

}  // namespace

grpc::ServerUnaryReactor* AdminService::Answer(
    const char* method, grpc::CallbackServerContext& context,
    std::function<absl::Status()> answer) {
  grpc::ServerUnaryReactor* reactor = context.DefaultReactor();
  const absl::StatusOr<Caller> caller =
      parts_.authenticator->Admit(context, Role::kAdmin);
  if (!caller.ok()) {
    LogCall(method, context.peer(), caller.status());
    reactor->Finish(ToGrpc(caller.status(), context));
    return reactor;
  }
  // The call's messages and context live until Finish.
  const auto finish = [=, key = caller->key,
                       &context](const absl::Status& status) {
    LogCall(method, key, status);
    reactor->Finish(ToGrpc(status, context));
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
  const auto reactor = ModelProgressReactor<Response>::Make(context);
  const absl::StatusOr<Caller> caller =
      parts_.authenticator->Admit(context, Role::kAdmin);
  const auto end = [=, key = caller.ok() ? caller->key : context.peer()](
                       const absl::Status& status) {
    LogCall(method, key, status);
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
