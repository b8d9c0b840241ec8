// One call to the server: its context and how it ends.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CPP_CALL_H_
#define PHITAP_CLIENT_CPP_CALL_H_

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/cpp/cancellation.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/status.h"

namespace phitap::client {

struct CallOptions {
  // Of the whole call; the server has a limit of its own.
  absl::Duration timeout = absl::InfiniteDuration();
  // Not owned; may be null.
  Cancellation* cancellation = nullptr;
};

// A call's context with its deadline, within reach of its cancellation.
class Call {
 public:
  explicit Call(const CallOptions& options)
      : scope_(options.cancellation, &context_) {
    if (options.timeout != absl::InfiniteDuration()) {
      context_.set_deadline(absl::ToChronoTime(absl::Now() + options.timeout));
    }
  }

  grpc::ClientContext* context() { return &context_; }

 private:
  grpc::ClientContext context_;
  Cancellation::Scope scope_;
};

// The codes are the same numbers.
inline absl::Status FromGrpc(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                      status.error_message());
}

}  // namespace phitap::client

#endif  // PHITAP_CLIENT_CPP_CALL_H_
