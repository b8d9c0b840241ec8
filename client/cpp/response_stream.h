// The stream of a Trace call, as raw messages.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CPP_RESPONSE_STREAM_H_
#define PHITAP_CLIENT_CPP_RESPONSE_STREAM_H_

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/support/byte_buffer.h"
#include "phitap/v1/trace.pb.h"

namespace phitap::client {

// One call. The generated stub would parse every chunk into a string; this
// hands out gRPC's own buffers. The calling thread polls the socket, so that
// messages pass through no other thread, until ReadAhead. Thread-compatible;
// Finish must be called.
class ResponseStream {
 public:
  // `context` must outlive the stream.
  ResponseStream(const std::shared_ptr<grpc::Channel>& channel,
                 grpc::ClientContext* context, const v1::TraceRequest& request);
  ~ResponseStream();
  ResponseStream(const ResponseStream&) = delete;
  ResponseStream& operator=(const ResponseStream&) = delete;

  // From now on a thread takes messages from the socket while the caller is
  // busy with those before them, a few MiB ahead. Worth it where much is to
  // come: a thread is started, and each message changes hands. No effect when
  // called again.
  void ReadAhead();

  // Waits for the next message; false at the end of the stream.
  bool Read(grpc::ByteBuffer* message);

  // Waits for the server's status; call once, after Read returned false or the
  // context was cancelled. Drops what was not read.
  grpc::Status Finish();

 private:
  // Takes the next message from the socket.
  bool Take(grpc::ByteBuffer* message);
  bool Wait();
  // What the reading thread does until the end of the stream.
  void TakeAll();
  void StopReadingAhead();

  grpc::CompletionQueue queue_;
  grpc::TemplatedGenericStub<v1::TraceRequest, grpc::ByteBuffer> stub_;
  std::unique_ptr<
      grpc::ClientAsyncReaderWriter<v1::TraceRequest, grpc::ByteBuffer>>
      call_;

  // Reads ahead; nobody else takes messages while it runs.
  std::thread reader_;
  std::mutex mutex_;  // Guards all below.
  std::condition_variable changed_;
  std::deque<grpc::ByteBuffer> ahead_;
  size_t ahead_bytes_ = 0;
  bool at_end_ = false;
  // Nobody will read what comes.
  bool dropping_ = false;
};

}  // namespace phitap::client

#endif  // PHITAP_CLIENT_CPP_RESPONSE_STREAM_H_
