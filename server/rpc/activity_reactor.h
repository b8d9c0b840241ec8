// One WatchActivity call: tells again and again what the server is doing.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_RPC_ACTIVITY_REACTOR_H_
#define PHITAP_SERVER_RPC_ACTIVITY_REACTOR_H_

#include <grpcpp/alarm.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <memory>
#include <mutex>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "phitap/v1/admin_service.pb.h"
#include "server/rpc/call_tag.h"
#include "server/rpc/service_parts.h"

namespace phitap {

// The time between two messages. INVALID_ARGUMENT against `interval` where it
// is not from 100 ms to 1 hour.
absl::StatusOr<absl::Duration> IntervalOf(
    const v1::WatchActivityRequest& request);

// Looks on the delivery pool, writes, waits, looks again; a look is never
// older than the reader lets it be. Ends with OK once the server is stopping
// and nothing is left. Lives until gRPC is done with the call and nothing
// refers to it.
class ActivityReactor final
    : public grpc::ServerWriteReactor<v1::WatchActivityResponse>,
      public std::enable_shared_from_this<ActivityReactor> {
 public:
  // `parts` and `context` outlive the call.
  static ActivityReactor* Start(const ServiceParts& parts,
                                grpc::CallbackServerContext& context,
                                const v1::WatchActivityRequest& request);

  // gRPC's callbacks.
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  ActivityReactor(const ServiceParts& parts,
                  grpc::CallbackServerContext& context);

  absl::Status Begin(const v1::WatchActivityRequest& request);
  // On the delivery pool.
  void Look();
  // Waits until it is time for the next look.
  void Wait();
  // Has a look made, unless the caller has hung up.
  void LookAgain();
  // Once; nothing may be pending.
  void End(const absl::Status& status);

  const ServiceParts& parts_;
  grpc::CallbackServerContext& context_;
  CallTag tag_;
  absl::Duration interval_;
  // gRPC reads it until OnWriteDone.
  v1::WatchActivityResponse message_;
  // Whether a message has been written. Looks and ends come one at a time.
  bool answered_ = false;

  std::mutex mutex_;  // Guards all below.
  // Until OnDone; context_ is not touched after that.
  std::shared_ptr<ActivityReactor> self_;
  // While it waits.
  std::optional<grpc::Alarm> alarm_;
  bool cancelled_ = false;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_RPC_ACTIVITY_REACTOR_H_
