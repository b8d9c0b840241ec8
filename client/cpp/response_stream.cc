#include "client/cpp/response_stream.h"

#include <utility>

#include "client/cpp/freed_memory.h"
#include "grpcpp/impl/codegen/proto_utils.h"  // TraceRequest as a buffer

namespace phitap::client {
namespace {

constexpr char kMethod[] = "/phitap.v1.ActivationService/Trace";
// Four of the largest chunks: they stay in the cache until they are copied.
constexpr size_t kMaxAheadBytes = 4 << 20;

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
  StopReadingAhead();
  queue_.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) {
  }
}

void ResponseStream::ReadAhead() {
  if (reader_.joinable()) return;
  KeepFreedMemory();
  reader_ = std::thread([this] { TakeAll(); });
}

bool ResponseStream::Read(grpc::ByteBuffer* message) {
  if (!reader_.joinable()) return Take(message);
  // Its memory goes before the next is waited for.
  message->Clear();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !ahead_.empty() || at_end_; });
  if (ahead_.empty()) return false;
  *message = std::move(ahead_.front());
  ahead_.pop_front();
  ahead_bytes_ -= message->Length();
  lock.unlock();
  changed_.notify_one();
  return true;
}

void ResponseStream::TakeAll() {
  for (;;) {
    grpc::ByteBuffer message;
    const bool taken = Take(&message);
    std::unique_lock lock(mutex_);
    if (taken && !dropping_) {
      ahead_bytes_ += message.Length();
      ahead_.push_back(std::move(message));
    }
    at_end_ = !taken;
    changed_.notify_one();
    if (at_end_) return;
    changed_.wait(
        lock, [this] { return ahead_bytes_ < kMaxAheadBytes || dropping_; });
  }
}

void ResponseStream::StopReadingAhead() {
  if (!reader_.joinable()) return;
  {
    std::lock_guard lock(mutex_);
    dropping_ = true;
  }
  changed_.notify_one();
  reader_.join();
}

grpc::Status ResponseStream::Finish() {
  StopReadingAhead();
  grpc::Status status;
  call_->Finish(&status, this);
  Wait();
  return status;
}

bool ResponseStream::Take(grpc::ByteBuffer* message) {
  call_->Read(message, this);
  return Wait();
}

// One operation is in flight at a time, so its completion is the next event.
bool ResponseStream::Wait() {
  void* tag = nullptr;
  bool ok = false;
  return queue_.Next(&tag, &ok) && ok;
}

}  // namespace phitap::client
