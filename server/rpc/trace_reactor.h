// One Trace call: plans it, submits it, and writes its stream with
// back-pressure.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_RPC_TRACE_REACTOR_H_
#define PHITAP_SERVER_RPC_TRACE_REACTOR_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/rpc/call_tag.h"
#include "server/rpc/request_plan.h"
#include "server/rpc/service_parts.h"
#include "server/rpc/stream_watch.h"
#include "server/rpc/trace_messages.h"
#include "server/rpc/trace_record.h"
#include "server/schedule/result_stream.h"

namespace phitap {

// Planning runs on the planning pool, messages are made on the delivery pool, a
// few ahead of the one that is being written. gRPC's callbacks and the compute
// thread only post tasks or start the write of a message that is ready. Lives
// until gRPC is done with the call and no task refers to it.
class TraceReactor final : public grpc::ServerWriteReactor<grpc::ByteBuffer>,
                           public WatchedStream,
                           public std::enable_shared_from_this<TraceReactor> {
 public:
  // `parts` and `context` outlive the call.
  static TraceReactor* Start(const ServiceParts& parts,
                             grpc::CallbackServerContext& context,
                             const grpc::ByteBuffer& request);

  // gRPC's callbacks.
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  // Fails the request at its deadline; cancels the call of a stalled reader.
  void Check(absl::Time now) override;

 private:
  TraceReactor(const ServiceParts& parts, grpc::CallbackServerContext& context);

  // Admits the caller; the rest is then done on the planning pool.
  absl::Status Begin(const grpc::ByteBuffer& request);

  // On the planning pool.
  void Plan(const grpc::ByteBuffer& request);
  absl::Status Accept(const grpc::ByteBuffer& request);
  // Queues what was planned, and has its messages made. ABORTED where its model
  // is there no more.
  absl::Status Open(const RequestPlan& planned);
  absl::StatusOr<std::shared_ptr<ResultStream>> Submit(
      const RequestPlan& planned);
  // Has the call watched. CANCELLED where it is not wanted any more,
  // UNAVAILABLE where the server is stopping.
  absl::Status Watch();
  // Has messages made, as far ahead as they may be.
  void Wake();
  // On the delivery pool; one at a time.
  void MakeMessages();
  // Whether there is more to make now.
  bool MakeOne();
  // Ends the call with `status` once what is ready has been written, or, unless
  // it is OK, at once.
  void End(absl::Status status);
  // Starts what the call's state asks for: a write, or the finish.
  void Step(std::unique_lock<std::mutex> lock);
  // What became of the call, once it has ended. With mutex_ held.
  TraceRecord Record() const;

  const ServiceParts& parts_;
  grpc::CallbackServerContext& context_;
  // Its identity is set by Begin.
  CallTag tag_;
  const absl::Time started_at_;
  const absl::Time deadline_;

  // Set by Begin.
  Caller caller_;
  // Set by Accept before the first Wake, then used by MakeMessages alone.
  std::optional<TraceMessages> messages_;

  std::mutex mutex_;  // Guards all below.
  // Until OnDone; context_ is not touched after that.
  std::shared_ptr<TraceReactor> self_;
  std::shared_ptr<ResultStream> stream_;
  // Until the call is about to end.
  QuotaBook::Place place_;
  std::string model_;
  absl::Time planned_at_ = absl::InfiniteFuture();
  TraceTotals totals_;
  bool making_ = false;
  // An event came while messages were being made.
  bool woken_ = false;
  std::deque<grpc::ByteBuffer> ready_;
  // Being written; gRPC reads it until OnWriteDone or OnDone.
  grpc::ByteBuffer writing_;
  bool write_pending_ = false;
  // Whether a message has been written.
  bool answered_ = false;
  absl::Time last_taken_;
  bool stalled_ = false;
  bool cancelled_ = false;
  std::optional<absl::Status> end_;
  bool finishing_ = false;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_RPC_TRACE_REACTOR_H_
