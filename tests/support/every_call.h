// Each method of the ActivationService, called once.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_SUPPORT_EVERY_CALL_H_
#define PHITAP_TESTS_SUPPORT_EVERY_CALL_H_

#include <grpcpp/client_context.h>

#include <functional>
#include <string>
#include <vector>

#include "phitap/v1/activation_service.grpc.pb.h"

namespace phitap {

using ActivationStub = v1::ActivationService::Stub;

struct NamedCall {
  std::string method;
  // "trace" or "tensors": the role that it needs.
  std::string role;
  std::function<grpc::Status(ActivationStub&, grpc::ClientContext&)> make;
};

// Of the method `Method`, with an empty request.
#define PHITAP_UNARY_CALL(Method, needed_role)                              \
  NamedCall {                                                               \
#Method, needed_role,                                                     \
        [](ActivationStub& stub, grpc::ClientContext& context) {              \
          v1::Method##Response response;                                      \
          return stub.Method(&context, v1::Method##Request(), &response);     \
        } \
  }

inline std::vector<NamedCall> EveryCall() {
  return {
      PHITAP_UNARY_CALL(ListModels, "trace"),
      PHITAP_UNARY_CALL(GetModel, "trace"),
      PHITAP_UNARY_CALL(Tokenize, "trace"),
      PHITAP_UNARY_CALL(Detokenize, "trace"),
      PHITAP_UNARY_CALL(PlanTrace, "trace"),
      PHITAP_UNARY_CALL(ListTensors, "tensors"),
      PHITAP_UNARY_CALL(DeleteTensor, "tensors"),
      {"Trace", "trace",
       [](ActivationStub& stub, grpc::ClientContext& context) {
         const auto reader = stub.Trace(&context, v1::TraceRequest());
         v1::TraceResponse response;
         while (reader->Read(&response)) {
         }
         return reader->Finish();
       }},
      {"PutTensor", "tensors",
       [](ActivationStub& stub, grpc::ClientContext& context) {
         v1::PutTensorResponse response;
         const auto writer = stub.PutTensor(&context, &response);
         writer->WritesDone();
         return writer->Finish();
       }},
  };
}

#undef PHITAP_UNARY_CALL

}  // namespace phitap

#endif  // PHITAP_TESTS_SUPPORT_EVERY_CALL_H_
