// Calls of any method with bytes for messages, for services whose messages are
// not generated here and for requests that no generated class would send.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_SUPPORT_RAW_CALL_H_
#define PHITAP_TESTS_SUPPORT_RAW_CALL_H_

#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace phitap {

// One request, then any number of answers. Every method blocks.
class RawCall {
 public:
  RawCall(std::shared_ptr<grpc::Channel> channel, const std::string& method,
          const std::string& request)
      : stub_(std::move(channel)),
        call_(stub_.PrepareCall(&context_, method, &queue_)) {
    call_->StartCall(nullptr);
    Await();
    const grpc::Slice slice(request);
    call_->WriteLast(grpc::ByteBuffer(&slice, 1), {}, nullptr);
    Await();
  }
  ~RawCall() {
    context_.TryCancel();
    if (!finished_) Finish();
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
    }
  }

  // The next answer's bytes; none after the last.
  std::optional<std::string> Read() {
    grpc::ByteBuffer buffer;
    call_->Read(&buffer, nullptr);
    if (!Await()) return std::nullopt;
    std::vector<grpc::Slice> slices;
    if (!buffer.Dump(&slices).ok()) return std::nullopt;
    std::string bytes;
    for (const grpc::Slice& slice : slices) {
      bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
    }
    return bytes;
  }

  grpc::Status Finish() {
    grpc::Status status;
    call_->Finish(&status, nullptr);
    Await();
    finished_ = true;
    return status;
  }

 private:
  bool Await() {
    void* tag = nullptr;
    bool ok = false;
    return queue_.Next(&tag, &ok) && ok;
  }

  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  grpc::GenericStub stub_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
  bool finished_ = false;
};

}  // namespace phitap

#endif  // PHITAP_TESTS_SUPPORT_RAW_CALL_H_
