// Stops calls in flight from another thread.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CPP_CANCELLATION_H_
#define PHITAP_CLIENT_CPP_CANCELLATION_H_

#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/client_context.h"

namespace phitap::client {

// Cancels every call that it was given to, now and later: they end with
// CANCELLED. Thread-safe; not for use inside a signal handler.
class Cancellation {
 public:
  void Cancel();
  bool cancelled() const;

  // Keeps a call within reach of Cancel while it lives. `cancellation` may be
  // null; both must outlive it.
  class Scope {
   public:
    Scope(Cancellation* cancellation, grpc::ClientContext* context);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Cancellation* const cancellation_;
    grpc::ClientContext* const context_;
  };

 private:
  mutable absl::Mutex mutex_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<grpc::ClientContext*> contexts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace phitap::client

#endif  // PHITAP_CLIENT_CPP_CANCELLATION_H_
