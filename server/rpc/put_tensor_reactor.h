// One PutTensor call: takes the pieces of a tensor as they come.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_RPC_PUT_TENSOR_REACTOR_H_
#define PHITAP_SERVER_RPC_PUT_TENSOR_REACTOR_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "phitap/v1/activation_service.pb.h"
#include "server/rpc/call_tag.h"
#include "server/rpc/service_parts.h"
#include "server/rpc/stream_watch.h"
#include "server/rpc/tensor_upload.h"

namespace phitap {

// Messages are checked, copied and hashed on the planning pool, one at a time;
// the next one is read after that, so a caller is never ahead by more than
// gRPC's own buffers. Lives until gRPC is done with the call and no task refers
// to it.
class PutTensorReactor final
    : public grpc::ServerReadReactor<v1::PutTensorRequest>,
      public WatchedStream,
      public std::enable_shared_from_this<PutTensorReactor> {
 public:
  // `parts`, `context` and `response` outlive the call; `budget` is for the
  // bytes of uploads under way.
  static PutTensorReactor* Start(const ServiceParts& parts,
                                 std::shared_ptr<ByteBudget> budget,
                                 grpc::CallbackServerContext& context,
                                 v1::PutTensorResponse& response);

  // gRPC's callbacks.
  void OnReadDone(bool ok) override;
  void OnDone() override;

  // Cancels the call of a caller that sends nothing.
  void Check(absl::Time now) override;

 private:
  PutTensorReactor(const ServiceParts& parts,
                   grpc::CallbackServerContext& context,
                   v1::PutTensorResponse& response);

  // Admits the caller and asks for the first message.
  absl::Status Begin(std::shared_ptr<ByteBudget> budget);
  // On the planning pool.
  void TakeMessage();
  void TakeEnd();
  void End(const absl::Status& status);

  const ServiceParts& parts_;
  grpc::CallbackServerContext& context_;
  v1::PutTensorResponse& response_;
  // Its identity is set by Begin.
  CallTag tag_;
  // gRPC writes it between StartRead and OnReadDone, TakeMessage reads it
  // between OnReadDone and StartRead.
  v1::PutTensorRequest message_;
  // Set by Begin.
  Caller caller_;
  // The pool's, once Begin has made it.
  std::optional<TensorUpload> upload_;
  // Whether a message has come: only gRPC's callbacks look.
  bool opened_ = false;

  std::mutex mutex_;  // Guards all below.
  // Until OnDone; context_ is not touched after that.
  std::shared_ptr<PutTensorReactor> self_;
  bool reading_ = false;
  absl::Time last_read_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_RPC_PUT_TENSOR_REACTOR_H_
