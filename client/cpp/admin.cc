#include "client/cpp/admin.h"

#include <string>

#include "server/base/status_macros.h"

namespace phitap::client {
namespace {

template <typename Response>
absl::Status ReadStates(grpc::ClientReader<Response>& reader,
                        const ModelStateCallback& on_state) {
  Response response;
  while (reader.Read(&response)) {
    if (on_state != nullptr) on_state(response.model());
  }
  return FromGrpc(reader.Finish());
}

}  // namespace

absl::StatusOr<std::vector<v1::ModelState>> Admin::ListModelStates(
    const CallOptions& options) const {
  Call call(options);
  v1::ListModelStatesResponse response;
  RETURN_IF_ERROR(
      FromGrpc(stub_->ListModelStates(call.context(), {}, &response)));
  return std::vector<v1::ModelState>(response.models().begin(),
                                     response.models().end());
}

absl::Status Admin::LoadModel(absl::string_view name, absl::string_view path,
                              const ModelStateCallback& on_state,
                              const CallOptions& options) const {
  Call call(options);
  v1::LoadModelRequest request;
  request.set_name(std::string(name));
  request.set_path(std::string(path));
  return ReadStates(*stub_->LoadModel(call.context(), request), on_state);
}

absl::Status Admin::UnloadModel(absl::string_view name,
                                const CallOptions& options) const {
  Call call(options);
  v1::UnloadModelRequest request;
  request.set_name(std::string(name));
  v1::UnloadModelResponse response;
  return FromGrpc(stub_->UnloadModel(call.context(), request, &response));
}

absl::Status Admin::ReloadModel(absl::string_view name,
                                const ModelStateCallback& on_state,
                                const CallOptions& options) const {
  Call call(options);
  v1::ReloadModelRequest request;
  request.set_name(std::string(name));
  return ReadStates(*stub_->ReloadModel(call.context(), request), on_state);
}

absl::Status Admin::WatchActivity(absl::Duration interval,
                                  const ActivityCallback& on_activity,
                                  const CallOptions& options) const {
  Call call(options);
  v1::WatchActivityRequest request;
  absl::Duration rest;
  request.mutable_interval()->set_seconds(
      absl::IDivDuration(interval, absl::Seconds(1), &rest));
  request.mutable_interval()->set_nanos(
      static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
  const auto reader = stub_->WatchActivity(call.context(), request);
  v1::WatchActivityResponse response;
  while (reader->Read(&response)) {
    if (on_activity(response)) continue;
    call.context()->TryCancel();
    reader->Finish();
    return absl::OkStatus();
  }
  return FromGrpc(reader->Finish());
}

absl::Status Admin::SetLogLevel(v1::LogVerbosity level,
                                const CallOptions& options) const {
  Call call(options);
  v1::SetLogLevelRequest request;
  request.set_level(level);
  v1::SetLogLevelResponse response;
  return FromGrpc(stub_->SetLogLevel(call.context(), request, &response));
}

absl::Status Admin::DrainServer(const CallOptions& options) const {
  Call call(options);
  v1::DrainServerResponse response;
  return FromGrpc(stub_->DrainServer(call.context(), {}, &response));
}

}  // namespace phitap::client
