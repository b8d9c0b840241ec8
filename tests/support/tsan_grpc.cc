// What gRPC hands from one thread to another, told to the thread sanitizer: see
// tsan_sync.cc.
//
// The operations that are started on a call end on another thread, with the tag
// that they were started with. Inside, gRPC passes them on through queues
// without locks, which the sanitizer does not see.
// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <grpc/grpc.h>
#include <grpcpp/support/callback_common.h>
#include <grpcpp/support/server_callback.h>
#include <sanitizer/tsan_interface.h>

namespace {

template <typename Function>
Function* Library(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

using Tag = grpc::internal::CallbackWithSuccessTag;

void RunTag(Tag& tag, bool ok);
// Its Run is private, which an explicit instantiation does not mind.
template <void (Tag::*kRun)(bool)>
struct RunOf {
  friend void RunTag(Tag& tag, bool ok) { (tag.*kRun)(ok); }
};
template struct RunOf<&Tag::Run>;

}  // namespace

extern "C" {

grpc_call_error grpc_call_start_batch(grpc_call* call, const grpc_op* ops,
                                      size_t count, void* tag, void* reserved) {
  static auto* const library =
      Library<decltype(grpc_call_start_batch)>("grpc_call_start_batch");
  __tsan_release(tag);
  return library(call, ops, count, tag, reserved);
}

grpc_event grpc_completion_queue_next(grpc_completion_queue* queue,
                                      gpr_timespec deadline, void* reserved) {
  static auto* const library = Library<decltype(grpc_completion_queue_next)>(
      "grpc_completion_queue_next");
  const grpc_event event = library(queue, deadline, reserved);
  if (event.type == GRPC_OP_COMPLETE) __tsan_acquire(event.tag);
  return event;
}

grpc_event grpc_completion_queue_pluck(grpc_completion_queue* queue, void* tag,
                                       gpr_timespec deadline, void* reserved) {
  static auto* const library = Library<decltype(grpc_completion_queue_pluck)>(
      "grpc_completion_queue_pluck");
  const grpc_event event = library(queue, tag, deadline, reserved);
  if (event.type == GRPC_OP_COMPLETE) __tsan_acquire(tag);
  return event;
}

// A server ends after its calls have.
static char ended_calls;

void grpc_call_unref(grpc_call* call) {
  static auto* const library =
      Library<decltype(grpc_call_unref)>("grpc_call_unref");
  __tsan_release(&ended_calls);
  library(call);
}

void grpc_server_destroy(grpc_server* server) {
  static auto* const library =
      Library<decltype(grpc_server_destroy)>("grpc_server_destroy");
  library(server);
  __tsan_acquire(&ended_calls);
}

// Comes before the one in gRPC's header, which is weak.
void PhitapRunTag(grpc_completion_queue_functor* functor, int ok) __asm__(
    "_ZN4grpc8internal22CallbackWithSuccessTag9StaticRunEP29grpc_completion_"
    "queue_functori");
void PhitapRunTag(grpc_completion_queue_functor* functor, int ok) {
  __tsan_acquire(functor);
  RunTag(*static_cast<Tag*>(functor), ok != 0);
}

}  // extern "C"

namespace grpc {
namespace internal {

// The last of those that a call waits for may be counted down by gRPC, where
// the sanitizer sees nothing of the others.
void ServerCallbackCall::ScheduleOnDone(bool inline_ondone) {
  static auto* const library = Library<void(ServerCallbackCall*, bool)>(
      "_ZN4grpc8internal18ServerCallbackCall14ScheduleOnDoneEb");
  __tsan_acquire(&callbacks_outstanding_);
  library(this, inline_ondone);
}

void ServerCallbackCall::CallOnCancel(ServerReactor* reactor) {
  static auto* const library =
      Library<void(ServerCallbackCall*, ServerReactor*)>(
          "_ZN4grpc8internal18ServerCallbackCall12CallOnCancelEPNS0_"
          "13ServerReactorE");
  __tsan_acquire(&on_cancel_conditions_remaining_);
  library(this, reactor);
}

}  // namespace internal
}  // namespace grpc
