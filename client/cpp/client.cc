#include "client/cpp/client.h"

#include <climits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/response_stream.h"
#include "client/cpp/response_wire.h"
#include "server/base/status_macros.h"

namespace phitap::client {
namespace {

// Unlike Channel::WaitForConnected this does not sit out a refused connection.
bool WaitForConnection(grpc::Channel* channel, absl::Time deadline) {
  const auto until = absl::ToChronoTime(deadline);
  grpc_connectivity_state state = channel->GetState(/*try_to_connect=*/true);
  while (state != GRPC_CHANNEL_READY) {
    if (state == GRPC_CHANNEL_TRANSIENT_FAILURE ||
        state == GRPC_CHANNEL_SHUTDOWN ||
        !channel->WaitForStateChange(state, until)) {
      return false;
    }
    state = channel->GetState(/*try_to_connect=*/true);
  }
  return true;
}

// Keeps count of a trace's progress for its caller.
class ProgressMeter {
 public:
  // `callback` must outlive it.
  explicit ProgressMeter(const ProgressCallback& callback)
      : callback_(callback) {}

  void Report(const TraceAssembler& assembler,
              const v1::TraceResponse& message) {
    if (callback_ == nullptr) return;
    const absl::Time now = absl::Now();
    if (message.has_progress()) progress_.server = message.progress();
    if (assembler.received_bytes() > 0 &&
        first_byte_ == absl::InfiniteFuture()) {
      first_byte_ = now;
    }
    progress_.received_bytes = assembler.received_bytes();
    progress_.total_bytes = assembler.header().size_bytes();
    progress_.elapsed = now - start_;
    const double seconds = absl::ToDoubleSeconds(now - first_byte_);
    progress_.bytes_per_second =
        seconds > 0 ? static_cast<double>(progress_.received_bytes) / seconds
                    : 0;
    callback_(progress_);
  }

 private:
  const ProgressCallback& callback_;
  const absl::Time start_ = absl::Now();
  absl::Time first_byte_ = absl::InfiniteFuture();
  TraceProgress progress_;
};

// An answer of so many bytes is worth a second thread.
constexpr int64_t kReadAheadBytes = 4 << 20;

// Takes every message of the stream, or stops at the first that is wrong.
absl::Status Assemble(ResponseStream* stream, const TraceCallbacks& callbacks,
                      TraceAssembler* assembler) {
  ProgressMeter meter(callbacks.on_progress);
  grpc::ByteBuffer buffer;
  while (stream->Read(&buffer)) {
    ASSIGN_OR_RETURN(const ReceivedResponse response, DecodeResponse(&buffer));
    RETURN_IF_ERROR(assembler->Add(response));
    if (assembler->header().size_bytes() >= kReadAheadBytes) {
      stream->ReadAhead();
    }
    const v1::TraceResponse& message = response.message;
    if (message.has_token() && callbacks.on_token != nullptr) {
      callbacks.on_token(message.token());
    }
    meter.Report(*assembler, message);
  }
  return absl::OkStatus();
}

}  // namespace

Client::Client(std::shared_ptr<grpc::Channel> channel)
    : channel_(std::move(channel)),
      stub_(v1::ActivationService::NewStub(channel_)) {}

absl::StatusOr<Client> Client::Connect(const ClientOptions& options) {
  ASSIGN_OR_RETURN(std::shared_ptr<grpc::Channel> channel,
                   OpenChannel(options));
  if (!WaitForConnection(channel.get(),
                         absl::Now() + options.connect_timeout)) {
    return absl::UnavailableError(absl::StrCat(
        "no server answers at ", options.address,
        options.tls.has_value() ? ", or none that these files let in" : ""));
  }
  return Client(std::move(channel));
}

absl::StatusOr<ServingStatus> Client::CheckHealth(
    absl::string_view service, const CallOptions& options) const {
  Call call(options);
  return client::CheckHealth(channel_, call.context(), service);
}

absl::StatusOr<std::vector<v1::ModelSummary>> Client::ListModels(
    const CallOptions& options) const {
  Call call(options);
  v1::ListModelsResponse response;
  RETURN_IF_ERROR(FromGrpc(
      stub_->ListModels(call.context(), v1::ListModelsRequest(), &response)));
  return std::vector<v1::ModelSummary>(response.models().begin(),
                                       response.models().end());
}

absl::StatusOr<v1::Model> Client::GetModel(absl::string_view model,
                                           const CallOptions& options) const {
  Call call(options);
  v1::GetModelRequest request;
  request.set_model(std::string(model));
  v1::GetModelResponse response;
  RETURN_IF_ERROR(
      FromGrpc(stub_->GetModel(call.context(), request, &response)));
  return std::move(*response.mutable_model());
}

absl::StatusOr<v1::TokenizeResponse> Client::Tokenize(
    const v1::TokenizeRequest& request, const CallOptions& options) const {
  Call call(options);
  v1::TokenizeResponse response;
  RETURN_IF_ERROR(
      FromGrpc(stub_->Tokenize(call.context(), request, &response)));
  return response;
}

absl::StatusOr<v1::DetokenizeResponse> Client::Detokenize(
    const v1::DetokenizeRequest& request, const CallOptions& options) const {
  Call call(options);
  v1::DetokenizeResponse response;
  RETURN_IF_ERROR(
      FromGrpc(stub_->Detokenize(call.context(), request, &response)));
  return response;
}

absl::StatusOr<v1::PlanTraceResponse> Client::PlanTrace(
    const v1::TraceRequest& request, const CallOptions& options) const {
  Call call(options);
  v1::PlanTraceRequest wrapped;
  *wrapped.mutable_trace() = request;
  v1::PlanTraceResponse response;
  RETURN_IF_ERROR(
      FromGrpc(stub_->PlanTrace(call.context(), wrapped, &response)));
  return response;
}

absl::StatusOr<phitap::client::Trace> Client::Trace(
    const v1::TraceRequest& request, const CallOptions& options,
    const TraceCallbacks& callbacks) const {
  Call call(options);
  ResponseStream stream(channel_, call.context(), request);
  TraceAssembler assembler(callbacks.on_tensor);
  const absl::Status assembled = Assemble(&stream, callbacks, &assembler);
  if (!assembled.ok()) call.context()->TryCancel();
  const grpc::Status finished = stream.Finish();
  RETURN_IF_ERROR(assembled);
  RETURN_IF_ERROR(FromGrpc(finished));
  return std::move(assembler).Finish();
}

absl::StatusOr<v1::StoredTensor> Client::PutTensor(
    absl::string_view name, const HostTensor& tensor,
    const CallOptions& options, const UploadCallback& on_sent) const {
  Call call(options);
  v1::PutTensorResponse response;
  const auto writer = stub_->PutTensor(call.context(), &response);
  TensorUpload upload(name, tensor);
  v1::PutTensorRequest message;
  // A write fails where the server has refused already; Finish says why.
  while (upload.Next(&message) && writer->Write(message)) {
    if (on_sent != nullptr) on_sent(upload.sent_bytes(), upload.total_bytes());
  }
  writer->WritesDone();
  RETURN_IF_ERROR(FromGrpc(writer->Finish()));
  return std::move(*response.mutable_tensor());
}

absl::StatusOr<v1::ListTensorsResponse> Client::ListTensors(
    absl::string_view prefix, const CallOptions& options) const {
  Call call(options);
  v1::ListTensorsRequest request;
  request.set_prefix(std::string(prefix));
  v1::ListTensorsResponse response;
  RETURN_IF_ERROR(
      FromGrpc(stub_->ListTensors(call.context(), request, &response)));
  return response;
}

absl::Status Client::DeleteTensor(absl::string_view name,
                                  const CallOptions& options) const {
  Call call(options);
  v1::DeleteTensorRequest request;
  request.set_name(std::string(name));
  v1::DeleteTensorResponse response;
  return FromGrpc(stub_->DeleteTensor(call.context(), request, &response));
}

}  // namespace phitap::client
