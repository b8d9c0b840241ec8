// The ActivationService: one method per RPC.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_RPC_ACTIVATION_SERVICE_H_
#define PHITAP_SERVER_RPC_ACTIVATION_SERVICE_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "phitap/v1/activation_service.grpc.pb.h"
#include "server/rpc/service_parts.h"

namespace phitap {

// Every method on the callback API; Trace on raw bytes, since its answer is
// encoded without copying tensors.
using CallbackActivationService =
    v1::ActivationService::WithCallbackMethod_ListModels<
        v1::ActivationService::WithCallbackMethod_GetModel<
            v1::ActivationService::WithCallbackMethod_Tokenize<
                v1::ActivationService::WithCallbackMethod_Detokenize<
                    v1::ActivationService::WithCallbackMethod_PlanTrace<
                        v1::ActivationService::WithCallbackMethod_PutTensor<
                            v1::ActivationService::
                                WithCallbackMethod_ListTensors<
                                    v1::ActivationService::
                                        WithCallbackMethod_DeleteTensor<
                                            v1::ActivationService::
                                                WithRawCallbackMethod_Trace<
                                                    v1::ActivationService::
                                                        Service>>>>>>>>>;

// Thread-safe. Nothing but the posting of a task happens in gRPC's callbacks.
class ActivationService final : public CallbackActivationService {
 public:
  explicit ActivationService(const ServiceParts& parts)
      : parts_(parts),
        uploads_(std::make_shared<ByteBudget>(
            ByteBudgetOptions{.limit_bytes = parts.limits.max_upload_bytes,
                              .purpose = "uploads"})) {}

  grpc::ServerUnaryReactor* ListModels(
      grpc::CallbackServerContext* context,
      const v1::ListModelsRequest* request,
      v1::ListModelsResponse* response) override;
  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* context,
                                     const v1::GetModelRequest* request,
                                     v1::GetModelResponse* response) override;
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context,
                                     const v1::TokenizeRequest* request,
                                     v1::TokenizeResponse* response) override;
  grpc::ServerUnaryReactor* Detokenize(
      grpc::CallbackServerContext* context,
      const v1::DetokenizeRequest* request,
      v1::DetokenizeResponse* response) override;
  grpc::ServerUnaryReactor* PlanTrace(grpc::CallbackServerContext* context,
                                      const v1::PlanTraceRequest* request,
                                      v1::PlanTraceResponse* response) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Trace(
      grpc::CallbackServerContext* context,
      const grpc::ByteBuffer* request) override;
  grpc::ServerReadReactor<v1::PutTensorRequest>* PutTensor(
      grpc::CallbackServerContext* context,
      v1::PutTensorResponse* response) override;
  grpc::ServerUnaryReactor* ListTensors(
      grpc::CallbackServerContext* context,
      const v1::ListTensorsRequest* request,
      v1::ListTensorsResponse* response) override;
  grpc::ServerUnaryReactor* DeleteTensor(
      grpc::CallbackServerContext* context,
      const v1::DeleteTensorRequest* request,
      v1::DeleteTensorResponse* response) override;

 private:
  // A call as its log line tells of it, and what it needs.
  struct Call {
    const char* method;
    Role role;
    grpc::CallbackServerContext& context;
  };
  // Runs `answer` on the planning pool, if the caller has the role, and ends
  // the call with what it returns.
  grpc::ServerUnaryReactor* Answer(
      const Call& call, std::function<absl::Status(const Caller&)> answer);

  const ServiceParts parts_;
  // For the bytes of uploads under way.
  const std::shared_ptr<ByteBudget> uploads_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_RPC_ACTIVATION_SERVICE_H_
