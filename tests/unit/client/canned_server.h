// A server that answers traces with what a test puts into it.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_UNIT_CLIENT_CANNED_SERVER_H_
#define PHITAP_TESTS_UNIT_CLIENT_CANNED_SERVER_H_

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "phitap/v1/activation_service.grpc.pb.h"

namespace phitap::client {

// Answers every Trace with the same messages and status.
class CannedService : public v1::ActivationService::Service {
 public:
  std::vector<v1::TraceResponse> messages;
  grpc::Status status;
  // Whether to wait, after the messages, until the caller goes.
  bool waits = false;
  absl::Notification sent;
  absl::Notification ended;

  grpc::Status Trace(grpc::ServerContext* context, const v1::TraceRequest*,
                     grpc::ServerWriter<v1::TraceResponse>* writer) override {
    for (const v1::TraceResponse& message : messages) writer->Write(message);
    if (!waits) return status;
    sent.Notify();
    while (!context->IsCancelled()) std::this_thread::yield();
    ended.Notify();
    return grpc::Status(grpc::StatusCode::CANCELLED, "the caller went");
  }

  // What was uploaded, message by message; the status is that of traces.
  std::vector<v1::PutTensorRequest> uploaded;

  grpc::Status PutTensor(grpc::ServerContext*,
                         grpc::ServerReader<v1::PutTensorRequest>* reader,
                         v1::PutTensorResponse* response) override {
    v1::PutTensorRequest message;
    while (reader->Read(&message)) {
      uploaded.push_back(message);
      if (!status.ok()) return status;
    }
    response->mutable_tensor()->set_name(uploaded.front().header().name());
    return status;
  }
};

// It, listening on a port of its own.
class CannedServer {
 public:
  CannedServer() {
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    address_ = absl::StrCat("127.0.0.1:", port);
  }
  ~CannedServer() { server_->Shutdown(); }

  const std::string& address() const { return address_; }
  CannedService& service() { return service_; }

 private:
  CannedService service_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

}  // namespace phitap::client

#endif  // PHITAP_TESTS_UNIT_CLIENT_CANNED_SERVER_H_
