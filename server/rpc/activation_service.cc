#include "server/rpc/activation_service.h"

#include <utility>

#include "server/base/status_macros.h"
#include "server/plan/refuse_unknown.h"
#include "server/rpc/call_tag.h"
#include "server/rpc/model_messages.h"
#include "server/rpc/prompt_encoder.h"
#include "server/rpc/put_tensor_reactor.h"
#include "server/rpc/request_plan.h"
#include "server/rpc/tensor_messages.h"
#include "server/rpc/trace_reactor.h"

namespace phitap {

grpc::ServerUnaryReactor* ActivationService::Answer(
    const Call& call, std::function<absl::Status(const Caller&)> answer) {
  grpc::CallbackServerContext& context = call.context;
  grpc::ServerUnaryReactor* reactor = context.DefaultReactor();
  CallTag tag = TagCall(context);
  // Here, not on the pool: whoever may not call takes nobody's place there.
  const absl::StatusOr<Caller> caller =
      parts_.authenticator->Admit(context, call.role);
  if (caller.ok()) tag.identity = caller->identity->name;
  const auto finish = [=, &context, method = call.method,
                       this](const absl::Status& status) {
    LogCall(method, tag, status);
    parts_.metrics->CountCall(method, status);
    reactor->Finish(EndUnanswered(tag, status, context));
  };
  // The call's messages and context live until Finish.
  const absl::Status posted =
      caller.ok() ? parts_.planning->TryPost(
                        [finish, caller = *caller, answer = std::move(answer)] {
                          finish(answer(caller));
                        })
                  : caller.status();
  if (!posted.ok()) finish(posted);
  return reactor;
}

grpc::ServerUnaryReactor* ActivationService::ListModels(
    grpc::CallbackServerContext* context, const v1::ListModelsRequest* request,
    v1::ListModelsResponse* response) {
  return Answer({"ListModels", Role::kTrace, *context},
                [=, this](const Caller&) -> absl::Status {
                  RETURN_IF_ERROR(RefuseUnknown(*request, ""));
                  for (const std::shared_ptr<const ServedModel>& model :
                       parts_.models->all()) {
                    *response->add_models() = SummarizeModel(*model);
                  }
                  return absl::OkStatus();
                });
}

grpc::ServerUnaryReactor* ActivationService::GetModel(
    grpc::CallbackServerContext* context, const v1::GetModelRequest* request,
    v1::GetModelResponse* response) {
  return Answer({"GetModel", Role::kTrace, *context},
                [=, this](const Caller&) -> absl::Status {
                  RETURN_IF_ERROR(RefuseUnknown(*request, ""));
                  ASSIGN_OR_RETURN(
                      const std::shared_ptr<const ServedModel> model,
                      parts_.models->Find(request->model()));
                  *response->mutable_model() = DescribeModel(*model);
                  return absl::OkStatus();
                });
}

grpc::ServerUnaryReactor* ActivationService::Tokenize(
    grpc::CallbackServerContext* context, const v1::TokenizeRequest* request,
    v1::TokenizeResponse* response) {
  return Answer(
      {"Tokenize", Role::kTrace, *context},
      [=, this](const Caller&) -> absl::Status {
        RETURN_IF_ERROR(RefuseUnknown(*request, ""));
        ASSIGN_OR_RETURN(const std::shared_ptr<const ServedModel> model,
                         parts_.models->Find(request->model()));
        ASSIGN_OR_RETURN(*response, phitap::Tokenize(*request, *model));
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* ActivationService::Detokenize(
    grpc::CallbackServerContext* context, const v1::DetokenizeRequest* request,
    v1::DetokenizeResponse* response) {
  return Answer(
      {"Detokenize", Role::kTrace, *context},
      [=, this](const Caller&) -> absl::Status {
        RETURN_IF_ERROR(RefuseUnknown(*request, ""));
        ASSIGN_OR_RETURN(const std::shared_ptr<const ServedModel> model,
                         parts_.models->Find(request->model()));
        ASSIGN_OR_RETURN(*response, phitap::Detokenize(*request, *model));
        return absl::OkStatus();
      });
}

grpc::ServerUnaryReactor* ActivationService::PlanTrace(
    grpc::CallbackServerContext* context, const v1::PlanTraceRequest* request,
    v1::PlanTraceResponse* response) {
  return Answer(
      {"PlanTrace", Role::kTrace, *context},
      [=, this](const Caller& caller) -> absl::Status {
        ASSIGN_OR_RETURN(
            *response,
            PlanOnly(*request, {.models = *parts_.models,
                                .tensors = TensorsOf(caller, *parts_.tensors),
                                .identity = *caller.identity,
                                .limits = parts_.limits.plan}));
        return absl::OkStatus();
      });
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* ActivationService::Trace(
    grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) {
  return TraceReactor::Start(parts_, *context, *request);
}

grpc::ServerReadReactor<v1::PutTensorRequest>* ActivationService::PutTensor(
    grpc::CallbackServerContext* context, v1::PutTensorResponse* response) {
  return PutTensorReactor::Start(parts_, uploads_, *context, *response);
}

grpc::ServerUnaryReactor* ActivationService::ListTensors(
    grpc::CallbackServerContext* context, const v1::ListTensorsRequest* request,
    v1::ListTensorsResponse* response) {
  return Answer({"ListTensors", Role::kTensors, *context},
                [=, this](const Caller& caller) -> absl::Status {
                  RETURN_IF_ERROR(RefuseUnknown(*request, ""));
                  *response = DescribeAll(TensorsOf(caller, *parts_.tensors),
                                          request->prefix());
                  return absl::OkStatus();
                });
}

grpc::ServerUnaryReactor* ActivationService::DeleteTensor(
    grpc::CallbackServerContext* context,
    const v1::DeleteTensorRequest* request,
    v1::DeleteTensorResponse* /*response*/) {
  return Answer({"DeleteTensor", Role::kTensors, *context},
                [=, this](const Caller& caller) -> absl::Status {
                  RETURN_IF_ERROR(RefuseUnknown(*request, ""));
                  return TensorsOf(caller, *parts_.tensors)
                      .Delete(request->name(), "name");
                });
}

}  // namespace phitap
