#include "client/cpp/cancellation.h"

#include <algorithm>

namespace phitap::client {

void Cancellation::Cancel() {
  absl::MutexLock lock(&mutex_);
  cancelled_ = true;
  for (grpc::ClientContext* context : contexts_) context->TryCancel();
}

bool Cancellation::cancelled() const {
  absl::MutexLock lock(&mutex_);
  return cancelled_;
}

Cancellation::Scope::Scope(Cancellation* cancellation,
                           grpc::ClientContext* context)
    : cancellation_(cancellation), context_(context) {
  if (cancellation_ == nullptr) return;
  absl::MutexLock lock(&cancellation_->mutex_);
  cancellation_->contexts_.push_back(context_);
  // A context cancelled before its call starts makes that call end at once.
  if (cancellation_->cancelled_) context_->TryCancel();
}

Cancellation::Scope::~Scope() {
  if (cancellation_ == nullptr) return;
  absl::MutexLock lock(&cancellation_->mutex_);
  std::vector<grpc::ClientContext*>& contexts = cancellation_->contexts_;
  contexts.erase(std::find(contexts.begin(), contexts.end(), context_));
}

}  // namespace phitap::client
