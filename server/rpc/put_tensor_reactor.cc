#include "server/rpc/put_tensor_reactor.h"

#include <utility>

#include "server/base/status_macros.h"
#include "server/observe/log.h"

namespace phitap {

PutTensorReactor* PutTensorReactor::Start(const ServiceParts& parts,
                                          std::shared_ptr<ByteBudget> budget,
                                          grpc::CallbackServerContext& context,
                                          v1::PutTensorResponse& response) {
  std::shared_ptr<PutTensorReactor> reactor(
      new PutTensorReactor(parts, context, response));
  reactor->self_ = reactor;
  absl::Status begun = parts.watch->Add(reactor, reactor.get());
  if (begun.ok()) begun = reactor->Begin(std::move(budget));
  if (!begun.ok()) reactor->End(begun);
  return reactor.get();
}

PutTensorReactor::PutTensorReactor(const ServiceParts& parts,
                                   grpc::CallbackServerContext& context,
                                   v1::PutTensorResponse& response)
    : parts_(parts),
      context_(context),
      response_(response),
      tag_(TagCall(context)),
      last_read_(parts.clock->Now()) {}

absl::Status PutTensorReactor::Begin(std::shared_ptr<ByteBudget> budget) {
  ASSIGN_OR_RETURN(caller_,
                   parts_.authenticator->Admit(context_, Role::kTensors));
  tag_.identity = caller_.identity->name;
  upload_.emplace(
      TensorUploadOptions{.tensors = TensorsOf(caller_, *parts_.tensors),
                          .budget = std::move(budget)});
  {
    std::lock_guard lock(mutex_);
    reading_ = true;
  }
  StartRead(&message_);
  return absl::OkStatus();
}

void PutTensorReactor::OnReadDone(bool ok) {
  {
    std::lock_guard lock(mutex_);
    reading_ = false;
  }
  auto task = [self = shared_from_this(), ok] {
    ok ? self->TakeMessage() : self->TakeEnd();
  };
  // What has begun goes on: one task a call.
  if (opened_) return parts_.planning->Post(std::move(task));
  opened_ = true;
  const absl::Status posted = parts_.planning->TryPost(std::move(task));
  if (!posted.ok()) End(posted);
}

void PutTensorReactor::TakeMessage() {
  const absl::Status status = upload_->Take(message_);
  if (!status.ok()) return End(status);
  {
    std::lock_guard lock(mutex_);
    reading_ = true;
    last_read_ = parts_.clock->Now();
  }
  StartRead(&message_);
}

void PutTensorReactor::TakeEnd() {
  // The messages of a call that was cancelled end, too.
  if (context_.IsCancelled()) {
    return End(absl::CancelledError("the call was cancelled"));
  }
  absl::StatusOr<v1::PutTensorResponse> response = upload_->Finish();
  if (response.ok()) response_ = *std::move(response);
  End(response.status());
}

void PutTensorReactor::End(const absl::Status& status) {
  LogCall("PutTensor", tag_, status);
  parts_.metrics->CountCall("PutTensor", status);
  Finish(EndUnanswered(tag_, status, context_));
}

void PutTensorReactor::OnDone() {
  std::shared_ptr<PutTensorReactor> self;
  {
    std::lock_guard lock(mutex_);
    self = std::move(self_);
  }
  parts_.watch->Remove(this);
}

void PutTensorReactor::Check(absl::Time now) {
  std::lock_guard lock(mutex_);
  if (self_ == nullptr || !reading_ ||
      now - last_read_ < parts_.limits.stall_timeout) {
    return;
  }
  Log(LogLevel::kWarning, "upload stalled",
      {{log_field::kRequest, tag_.request_id}});
  // gRPC calls the reactor from threads of its own.
  context_.TryCancel();
}

}  // namespace phitap
