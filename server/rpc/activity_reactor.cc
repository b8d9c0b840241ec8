#include "server/rpc/activity_reactor.h"

#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/plan/refuse_unknown.h"
#include "server/rpc/activity_messages.h"
#include "server/rpc/grpc_status.h"

namespace phitap {
namespace {

constexpr absl::Duration kUsualInterval = absl::Seconds(1);
constexpr absl::Duration kLeastInterval = absl::Milliseconds(100);
constexpr absl::Duration kMostInterval = absl::Hours(1);

constexpr char kMethod[] = "WatchActivity";

absl::Status HungUp() { return absl::CancelledError("the caller has hung up"); }

}  // namespace

absl::StatusOr<absl::Duration> IntervalOf(
    const v1::WatchActivityRequest& request) {
  if (!request.has_interval()) return kUsualInterval;
  const absl::Duration interval = absl::Seconds(request.interval().seconds()) +
                                  absl::Nanoseconds(request.interval().nanos());
  if (interval >= kLeastInterval && interval <= kMostInterval) return interval;
  return InvalidField(
      {.field = "interval",
       .problem = absl::FormatDuration(interval),
       .valid = absl::StrCat(absl::FormatDuration(kLeastInterval), " to ",
                             absl::FormatDuration(kMostInterval))});
}

ActivityReactor* ActivityReactor::Start(
    const ServiceParts& parts, grpc::CallbackServerContext& context,
    const v1::WatchActivityRequest& request) {
  std::shared_ptr<ActivityReactor> reactor(new ActivityReactor(parts, context));
  reactor->self_ = reactor;
  const absl::Status begun = reactor->Begin(request);
  if (!begun.ok()) reactor->End(begun);
  return reactor.get();
}

ActivityReactor::ActivityReactor(const ServiceParts& parts,
                                 grpc::CallbackServerContext& context)
    : parts_(parts), context_(context), tag_(TagCall(context)) {}

absl::Status ActivityReactor::Begin(const v1::WatchActivityRequest& request) {
  ASSIGN_OR_RETURN(const Caller caller,
                   parts_.authenticator->Admit(context_, Role::kAdmin));
  tag_.identity = caller.identity->name;
  RETURN_IF_ERROR(RefuseUnknown(request, ""));
  ASSIGN_OR_RETURN(interval_, IntervalOf(request));
  parts_.delivery->Post([self = shared_from_this()] { self->Look(); });
  return absl::OkStatus();
}

void ActivityReactor::Look() {
  const bool stopping = parts_.scheduler->stopping();
  message_ = DescribeActivity(parts_);
  if (stopping && message_.callers().empty()) return End(absl::OkStatus());
  std::unique_lock lock(mutex_);
  const bool cancelled = cancelled_;
  lock.unlock();
  if (cancelled) return End(HungUp());
  if (!std::exchange(answered_, true)) NameAnswer(tag_, context_);
  StartWrite(&message_);
}

void ActivityReactor::OnWriteDone(bool ok) {
  if (!ok) return End(HungUp());
  Wait();
}

void ActivityReactor::Wait() {
  std::unique_lock lock(mutex_);
  if (cancelled_) {
    lock.unlock();
    return End(HungUp());
  }
  alarm_.emplace().Set(
      std::chrono::system_clock::now() + absl::ToChronoNanoseconds(interval_),
      [self = shared_from_this()](bool /*ok*/) { self->LookAgain(); });
}

void ActivityReactor::LookAgain() {
  {
    std::lock_guard lock(mutex_);
    if (!cancelled_) {
      return parts_.delivery->Post(
          [self = shared_from_this()] { self->Look(); });
    }
  }
  End(HungUp());
}

void ActivityReactor::OnCancel() {
  std::lock_guard lock(mutex_);
  cancelled_ = true;
  // Calls its callback on another thread, if it has not been called.
  if (alarm_.has_value()) alarm_->Cancel();
}

void ActivityReactor::End(const absl::Status& status) {
  LogCall(kMethod, tag_, status);
  parts_.metrics->CountCall(kMethod, status);
  Finish(answered_ ? ToGrpc(status, context_)
                   : EndUnanswered(tag_, status, context_));
}

void ActivityReactor::OnDone() {
  std::shared_ptr<ActivityReactor> self;
  // Keeps its callback, and so the reactor, for as long as it is there.
  std::optional<grpc::Alarm> alarm;
  std::lock_guard lock(mutex_);
  self = std::move(self_);
  alarm = std::move(alarm_);
  alarm_.reset();
}

}  // namespace phitap
