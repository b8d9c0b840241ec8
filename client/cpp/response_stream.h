// The stream of a Trace call, as raw messages.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CPP_RESPONSE_STREAM_H_
#define PHITAP_CLIENT_CPP_RESPONSE_STREAM_H_

#include <memory>

#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/support/byte_buffer.h"
#include "phitap/v1/trace.pb.h"

namespace phitap::client {

// One call. The generated stub would parse every chunk into a string; this
// hands out gRPC's own buffers. The calling thread polls the socket: messages
// pass through no other thread. Thread-compatible; Finish must be called.
class ResponseStream {
 public:
  // `context` must outlive the stream.
  ResponseStream(const std::shared_ptr<grpc::Channel>& channel,
                 grpc::ClientContext* context, const v1::TraceRequest& request);
  ~ResponseStream();
  ResponseStream(const ResponseStream&) = delete;
  ResponseStream& operator=(const ResponseStream&) = delete;

  // Waits for the next message; false at the end of the stream.
  bool Read(grpc::ByteBuffer* message);

  // Waits for the server's status; call once, after Read returned false or the
  // context was cancelled.
  grpc::Status Finish();

 private:
  bool Wait();

  grpc::CompletionQueue queue_;
  grpc::TemplatedGenericStub<v1::TraceRequest, grpc::ByteBuffer> stub_;
  std::unique_ptr<
      grpc::ClientAsyncReaderWriter<v1::TraceRequest, grpc::ByteBuffer>>
      call_;
};

}  // namespace phitap::client

#endif  // PHITAP_CLIENT_CPP_RESPONSE_STREAM_H_
