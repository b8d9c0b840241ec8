// The AdminService: one method per RPC.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_RPC_ADMIN_SERVICE_H_
#define PHITAP_SERVER_RPC_ADMIN_SERVICE_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "phitap/v1/admin_service.grpc.pb.h"
#include "server/models/model_state.h"
#include "server/rpc/service_parts.h"

namespace phitap {

using CallbackAdminService =
    v1::AdminService::WithCallbackMethod_ListModelStates<
        v1::AdminService::WithCallbackMethod_LoadModel<
            v1::AdminService::WithCallbackMethod_UnloadModel<
                v1::AdminService::WithCallbackMethod_ReloadModel<
                    v1::AdminService::WithCallbackMethod_WatchActivity<
                        v1::AdminService::WithCallbackMethod_SetLogLevel<
                            v1::AdminService::WithCallbackMethod_DrainServer<
                                v1::AdminService::Service>>>>>>>;

// Thread-safe. Every call needs the role kAdmin; nothing but the posting of a
// task happens in gRPC's callbacks.
class AdminService final : public CallbackAdminService {
 public:
  explicit AdminService(const ServiceParts& parts) : parts_(parts) {}

  grpc::ServerUnaryReactor* ListModelStates(
      grpc::CallbackServerContext* context,
      const v1::ListModelStatesRequest* request,
      v1::ListModelStatesResponse* response) override;
  grpc::ServerWriteReactor<v1::LoadModelResponse>* LoadModel(
      grpc::CallbackServerContext* context,
      const v1::LoadModelRequest* request) override;
  grpc::ServerUnaryReactor* UnloadModel(
      grpc::CallbackServerContext* context,
      const v1::UnloadModelRequest* request,
      v1::UnloadModelResponse* response) override;
  grpc::ServerWriteReactor<v1::ReloadModelResponse>* ReloadModel(
      grpc::CallbackServerContext* context,
      const v1::ReloadModelRequest* request) override;
  grpc::ServerWriteReactor<v1::WatchActivityResponse>* WatchActivity(
      grpc::CallbackServerContext* context,
      const v1::WatchActivityRequest* request) override;
  grpc::ServerUnaryReactor* SetLogLevel(
      grpc::CallbackServerContext* context,
      const v1::SetLogLevelRequest* request,
      v1::SetLogLevelResponse* response) override;
  grpc::ServerUnaryReactor* DrainServer(
      grpc::CallbackServerContext* context,
      const v1::DrainServerRequest* request,
      v1::DrainServerResponse* response) override;

 private:
  // Runs `answer` on the administration pool, if the caller may, and ends the
  // call with what it returns.
  grpc::ServerUnaryReactor* Answer(const char* method,
                                   grpc::CallbackServerContext& context,
                                   std::function<absl::Status()> answer);
  // The same for what tells a model's states.
  template <typename Response>
  grpc::ServerWriteReactor<Response>* Tell(
      const char* method, grpc::CallbackServerContext& context,
      std::function<absl::Status(const ModelObserver&)> work);
  const ServiceParts parts_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_RPC_ADMIN_SERVICE_H_
