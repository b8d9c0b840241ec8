// Talks to a phitap server.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CPP_CLIENT_H_
#define PHITAP_CLIENT_CPP_CLIENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/cpp/admin.h"
#include "client/cpp/call.h"
#include "client/cpp/cancellation.h"
#include "client/cpp/channel.h"
#include "client/cpp/health.h"
#include "client/cpp/tensor_upload.h"
#include "client/cpp/trace.h"
#include "client/cpp/trace_assembler.h"
#include "client/cpp/trace_request.h"
#include "grpcpp/channel.h"
#include "phitap/v1/activation_service.grpc.pb.h"

namespace phitap::client {

// How far a trace has come.
struct TraceProgress {
  // Tensor bytes, of which total_bytes are to come (0 before the header).
  int64_t received_bytes = 0;
  int64_t total_bytes = 0;
  // Since the call began.
  absl::Duration elapsed;
  // Since the first tensor byte.
  double bytes_per_second = 0;
  // Where the request stands, if it asked for it.
  std::optional<v1::Progress> server;
};
using ProgressCallback = std::function<void(const TraceProgress&)>;

// What a trace tells while it goes on, on the thread that called Trace. Any may
// be null.
struct TraceCallbacks {
  // At each message.
  ProgressCallback on_progress = nullptr;
  // At each generated token; those of several runs come interleaved.
  std::function<void(const v1::GeneratedToken&)> on_token = nullptr;
  // At each tensor that is complete, checksum included. A run that fails later
  // takes its tensors back.
  TraceAssembler::TensorCallback on_tensor = nullptr;
};

// A connection. Every call returns the server's status where it refuses, with
// its message. Thread-safe; copies share the connection.
//
//   ASSIGN_OR_RETURN(Client client, Client::Connect({}));
//   ASSIGN_OR_RETURN(Trace trace, client.Trace(ToRequest(
//       {.runs = {TextRun("When Mary and John went")},
//        .captures = {{.hook_points = "layers.*.layer_output"},
//                     {.hook_points = "logits",
//                      .selection = {.positions = Indices({-1})}}}})));
//   ASSIGN_OR_RETURN(const TracedTensor* logits,
//                    trace.Find({.label = "logits"}));
class Client {
 public:
  // The errors of OpenChannel; UNAVAILABLE where nobody answers.
  static absl::StatusOr<Client> Connect(const ClientOptions& options);

  // Of one of the server's services, or of the whole server where it is empty;
  // see health.h.
  absl::StatusOr<ServingStatus> CheckHealth(
      absl::string_view service = "", const CallOptions& options = {}) const;

  absl::StatusOr<std::vector<v1::ModelSummary>> ListModels(
      const CallOptions& options = {}) const;
  // Here and below, `model` may be empty where the server holds one.
  absl::StatusOr<v1::Model> GetModel(absl::string_view model,
                                     const CallOptions& options = {}) const;
  absl::StatusOr<v1::TokenizeResponse> Tokenize(
      const v1::TokenizeRequest& request,
      const CallOptions& options = {}) const;
  absl::StatusOr<v1::DetokenizeResponse> Detokenize(
      const v1::DetokenizeRequest& request,
      const CallOptions& options = {}) const;
  absl::StatusOr<v1::PlanTraceResponse> PlanTrace(
      const v1::TraceRequest& request, const CallOptions& options = {}) const;

  // Returns a complete trace or none: see TraceAssembler. DATA_LOSS where the
  // stream does not add up.
  absl::StatusOr<phitap::client::Trace> Trace(
      const v1::TraceRequest& request, const CallOptions& options = {},
      const TraceCallbacks& callbacks = {}) const;

  // Keeps a tensor on the server under a name that edits and programs of later
  // requests can use, in place of one that has it. The upload is streamed.
  absl::StatusOr<v1::StoredTensor> PutTensor(
      absl::string_view name, const HostTensor& tensor,
      const CallOptions& options = {},
      const UploadCallback& on_sent = nullptr) const;
  // Those whose name begins with `prefix`.
  absl::StatusOr<v1::ListTensorsResponse> ListTensors(
      absl::string_view prefix = "", const CallOptions& options = {}) const;
  absl::Status DeleteTensor(absl::string_view name,
                            const CallOptions& options = {}) const;

  // What administrators may do, over the same connection.
  Admin admin() const { return Admin(channel_); }

 private:
  explicit Client(std::shared_ptr<grpc::Channel> channel);

  std::shared_ptr<grpc::Channel> channel_;
  std::shared_ptr<v1::ActivationService::Stub> stub_;
};

}  // namespace phitap::client

#endif  // PHITAP_CLIENT_CPP_CLIENT_H_
