// A call that does something with a model and tells how far it is.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_RPC_MODEL_PROGRESS_REACTOR_H_
#define PHITAP_SERVER_RPC_MODEL_PROGRESS_REACTOR_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "phitap/v1/admin_service.pb.h"
#include "server/rpc/call_tag.h"
#include "server/rpc/grpc_status.h"

namespace phitap {

// Writes the newest state; those that it overtakes are left out. Lives until
// gRPC is done with the call and the work has ended, which a caller that hangs
// up does not stop. Thread-safe.
template <typename Response>
class ModelProgressReactor final
    : public grpc::ServerWriteReactor<Response>,
      public std::enable_shared_from_this<ModelProgressReactor<Response>> {
 public:
  // `context` outlives the call.
  static std::shared_ptr<ModelProgressReactor> Make(
      CallTag tag, grpc::CallbackServerContext& context) {
    std::shared_ptr<ModelProgressReactor> reactor(
        new ModelProgressReactor(std::move(tag), context));
    reactor->self_ = reactor;
    return reactor;
  }

  void Tell(v1::ModelState state) {
    std::unique_lock lock(mutex_);
    if (end_.has_value()) return;
    *next_.emplace().mutable_model() = std::move(state);
    Step(std::move(lock));
  }

  // Ends the call, once the newest state is written unless it failed.
  void End(const absl::Status& status) {
    std::unique_lock lock(mutex_);
    if (end_.has_value()) return;
    end_ = status;
    Step(std::move(lock));
  }

  void OnWriteDone(bool /*ok*/) override {
    std::unique_lock lock(mutex_);
    write_pending_ = false;
    Step(std::move(lock));
  }

  void OnCancel() override {
    End(absl::CancelledError("the caller has hung up"));
  }

  void OnDone() override {
    std::shared_ptr<ModelProgressReactor> self;
    std::lock_guard lock(mutex_);
    self = std::move(self_);
  }

 private:
  ModelProgressReactor(CallTag tag, grpc::CallbackServerContext& context)
      : tag_(std::move(tag)), context_(context) {}

  void Step(std::unique_lock<std::mutex> lock) {
    if (finishing_ || write_pending_) return;
    if (end_.has_value() && (!end_->ok() || !next_.has_value())) {
      finishing_ = true;
      const grpc::Status status = answered_
                                      ? ToGrpc(*end_, context_)
                                      : EndUnanswered(tag_, *end_, context_);
      lock.unlock();
      this->Finish(status);
      return;
    }
    if (!next_.has_value()) return;
    if (!std::exchange(answered_, true)) NameAnswer(tag_, context_);
    writing_ = *std::move(next_);
    next_.reset();
    write_pending_ = true;
    lock.unlock();
    this->StartWrite(&writing_);
  }

  const CallTag tag_;
  grpc::CallbackServerContext& context_;

  std::mutex mutex_;  // Guards all below.
  // Until OnDone; context_ is not touched after that.
  std::shared_ptr<ModelProgressReactor> self_;
  std::optional<Response> next_;
  // gRPC reads it until OnWriteDone.
  Response writing_;
  bool write_pending_ = false;
  // Whether a message has been written.
  bool answered_ = false;
  std::optional<absl::Status> end_;
  bool finishing_ = false;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_RPC_MODEL_PROGRESS_REACTOR_H_
