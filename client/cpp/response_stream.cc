#include "client/cpp/response_stream.h"

#include "grpcpp/impl/codegen/proto_utils.h"  // TraceRequest as a buffer

namespace phitap::client {
namespace {

constexpr char kMethod[] = "/phitap.v1.ActivationService/Trace";

}  // namespace

ResponseStream::ResponseStream(const std::shared_ptr<grpc::Channel>& channel,
                               grpc::ClientContext* context,
                               const v1::TraceRequest& request)
    : stub_(channel), call_(stub_.PrepareCall(context, kMethod, &queue_)) {
  call_->StartCall(this);
  // Where a step fails the call is over, and Finish says why.
  if (!Wait()) return;
  call_->WriteLast(request, grpc::WriteOptions(), this);
  Wait();
}

ResponseStream::~ResponseStream() {
  queue_.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) {
  }
}

bool ResponseStream::Read(grpc::ByteBuffer* message) {
  call_->Read(message, this);
  return Wait();
}

grpc::Status ResponseStream::Finish() {
  grpc::Status status;
  call_->Finish(&status, this);
  Wait();
  return status;
}

// One operation is in flight at a time, so its completion is the next event.
bool ResponseStream::Wait() {
  void* tag = nullptr;
  bool ok = false;
  return queue_.Next(&tag, &ok) && ok;
}

}  // namespace phitap::client
