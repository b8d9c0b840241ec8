#include "server/rpc/trace_reactor.h"

#include <limits>
#include <utility>

#include "server/base/retry_hint.h"
#include "server/base/status_macros.h"
#include "server/observe/log.h"
#include "server/rpc/call_patience.h"
#include "server/rpc/grpc_status.h"
#include "server/rpc/prompt_log.h"
#include "server/rpc/tensor_wire.h"

namespace phitap {
namespace {

// Made ahead of the one that is being written: enough to hash one while another
// is on its way.
constexpr size_t kMessagesAhead = 4;
// Of one request, if its model goes between planning and submitting.
constexpr int kMostPlans = 3;
// Messages below it wait for the next one, if that is ready, so that they share
// a packet.
constexpr size_t kSmallMessageBytes = 16 << 10;

KeepTensor KeepIn(OwnedTensors tensors) {
  return [tensors = std::move(tensors)](const PlannedTensor& planned,
                                        const HostTensor& value) {
    // A copy: the value may be a part of something larger, which would live as
    // long and is not counted.
    return tensors.Put(planned.kept_as,
                       CopyOf(value.dtype, value.shape, value.bytes),
                       "tensor_name");
  };
}

}  // namespace

TraceReactor* TraceReactor::Start(const ServiceParts& parts,
                                  grpc::CallbackServerContext& context,
                                  const grpc::ByteBuffer& request) {
  std::shared_ptr<TraceReactor> reactor(new TraceReactor(parts, context));
  reactor->self_ = reactor;
  const absl::Status begun = reactor->Begin(request);
  if (!begun.ok()) reactor->End(begun);
  return reactor.get();
}

TraceReactor::TraceReactor(const ServiceParts& parts,
                           grpc::CallbackServerContext& context)
    : parts_(parts),
      context_(context),
      tag_(TagCall(context)),
      started_at_(parts.clock->Now()),
      deadline_(started_at_ + PatienceOf(context, parts.limits)),
      last_taken_(started_at_) {}

absl::Status TraceReactor::Begin(const grpc::ByteBuffer& request) {
  ASSIGN_OR_RETURN(caller_,
                   parts_.authenticator->Admit(context_, Role::kTrace));
  tag_.identity = caller_.identity->name;
  absl::StatusOr<QuotaBook::Place> place =
      parts_.quotas->TakePlace(caller_.identity);
  if (!place.ok()) {
    return WithRetryHint(place.status(), parts_.scheduler->retry_hint());
  }
  {
    std::lock_guard lock(mutex_);
    place_ = *std::move(place);
  }
  // Copying a ByteBuffer shares its bytes.
  return parts_.planning->TryPost(
      [self = shared_from_this(), request] { self->Plan(request); });
}

void TraceReactor::Plan(const grpc::ByteBuffer& request) {
  absl::Status status = Accept(request);
  if (!status.ok()) return End(std::move(status));
  Wake();
}

absl::Status TraceReactor::Accept(const grpc::ByteBuffer& request) {
  ASSIGN_OR_RETURN(const v1::TraceRequest trace, DecodeRequest(request));
  if (parts_.prompt_logging == PromptLogging::kOn) LogPrompts(trace, tag_);
  RETURN_IF_ERROR(Watch());
  absl::Status status;
  for (int i = 0; i < kMostPlans; ++i) {
    ASSIGN_OR_RETURN(
        const RequestPlan planned,
        PlanRequest(trace, {.models = *parts_.models,
                            .tensors = TensorsOf(caller_, *parts_.tensors),
                            .identity = *caller_.identity,
                            .limits = parts_.limits.plan}));
    status = Open(planned);
    // The model went or was replaced between the two: the next one, if there
    // is any, computes something of its own.
    if (!absl::IsAborted(status)) break;
  }
  return status;
}

absl::Status TraceReactor::Open(const RequestPlan& planned) {
  const absl::Time planned_at = parts_.clock->Now();
  ASSIGN_OR_RETURN(std::shared_ptr<ResultStream> stream, Submit(planned));
  std::lock_guard lock(mutex_);
  model_ = planned.model->name;
  planned_at_ = planned_at;
  messages_.emplace(TraceMessagesOptions{.request_id = tag_.request_id,
                                         .model = planned.model,
                                         .plan = planned.plan,
                                         .stream = stream});
  stream_ = std::move(stream);
  if (cancelled_) stream_->Close();
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<ResultStream>> TraceReactor::Submit(
    const RequestPlan& planned) {
  {
    std::lock_guard lock(mutex_);
    RETURN_IF_ERROR(place_.TakeTokens(CountTokens(*planned.plan)));
  }
  absl::StatusOr<std::shared_ptr<ResultStream>> stream =
      parts_.scheduler->Submit(
          {.plan = planned.plan,
           .caller = caller_.key,
           .max_caller_bytes = caller_.identity->quotas.max_queued_bytes,
           .deadline = deadline_,
           .wake =
               [weak = weak_from_this()] {
                 if (auto reactor = weak.lock()) reactor->Wake();
               },
           .keep = KeepIn(TensorsOf(caller_, *parts_.tensors))});
  std::lock_guard lock(mutex_);
  if (!stream.ok()) place_.GiveBackTokens();
  return stream;
}

absl::Status TraceReactor::Watch() {
  std::lock_guard lock(mutex_);
  if (cancelled_ || self_ == nullptr) {
    return absl::CancelledError("the call was cancelled");
  }
  return parts_.watch->Add(weak_from_this(), this);
}

void TraceReactor::Wake() {
  std::lock_guard lock(mutex_);
  if (finishing_ || stream_ == nullptr) return;
  woken_ = true;
  if (std::exchange(making_, true)) return;
  parts_.delivery->Post([self = shared_from_this()] { self->MakeMessages(); });
}

void TraceReactor::MakeMessages() {
  while (MakeOne()) {
  }
}

bool TraceReactor::MakeOne() {
  {
    std::lock_guard lock(mutex_);
    if (cancelled_ || end_.has_value() || ready_.size() >= kMessagesAhead) {
      making_ = false;  // OnWriteDone wakes it again.
      return false;
    }
    woken_ = false;
  }
  std::optional<grpc::ByteBuffer> message = messages_->Next();
  std::unique_lock lock(mutex_);
  if (!message.has_value() && !messages_->end().has_value()) {
    making_ = woken_;
    return making_;
  }
  if (message.has_value()) ready_.push_back(*std::move(message));
  end_ = messages_->end();
  totals_ = messages_->totals();
  Step(std::move(lock));
  return true;
}

void TraceReactor::End(absl::Status status) {
  std::unique_lock lock(mutex_);
  end_ = std::move(status);
  Step(std::move(lock));
}

void TraceReactor::Step(std::unique_lock<std::mutex> lock) {
  if (finishing_ || write_pending_) return;
  if (cancelled_) end_ = absl::CancelledError("the call was cancelled");
  if (end_.has_value() && (!end_->ok() || ready_.empty())) {
    finishing_ = true;
    place_ = {};
    ready_.clear();
    const grpc::Status status = answered_
                                    ? ToGrpc(*end_, context_)
                                    : EndUnanswered(tag_, *end_, context_);
    lock.unlock();
    Finish(status);
    return;
  }
  if (ready_.empty()) return;
  if (!std::exchange(answered_, true)) NameAnswer(tag_, context_);
  writing_ = std::move(ready_.front());
  ready_.pop_front();
  write_pending_ = true;
  last_taken_ = parts_.clock->Now();
  grpc::WriteOptions options;
  if (!ready_.empty() && writing_.Length() < kSmallMessageBytes) {
    options.set_buffer_hint();
  }
  const bool last = end_.has_value() && ready_.empty();
  if (last) {
    finishing_ = true;
    // Before the client knows that the request has ended: its next one must
    // find the place and the bytes free.
    place_ = {};
    stream_->ReleaseBytes(std::numeric_limits<int64_t>::max());
  }
  lock.unlock();
  if (last) {
    StartWriteAndFinish(&writing_, options, grpc::Status::OK);
  } else {
    StartWrite(&writing_, options);
  }
}

void TraceReactor::OnWriteDone(bool ok) {
  std::unique_lock lock(mutex_);
  write_pending_ = false;
  writing_.Clear();
  last_taken_ = parts_.clock->Now();
  if (!ok) {
    cancelled_ = true;
    stream_->Close();
  }
  const bool few = ready_.size() <= kMessagesAhead / 2;
  Step(std::move(lock));
  if (few) Wake();
}

void TraceReactor::OnCancel() {
  std::unique_lock lock(mutex_);
  cancelled_ = true;
  if (stream_ != nullptr) stream_->Close();
  ready_.clear();
  Step(std::move(lock));
}

void TraceReactor::Check(absl::Time now) {
  std::unique_lock lock(mutex_);
  if (self_ == nullptr || stalled_) return;
  if (write_pending_ && now - last_taken_ >= parts_.limits.stall_timeout) {
    stalled_ = true;
    Log(LogLevel::kWarning, "stream stalled",
        {{log_field::kRequest, tag_.request_id}, {log_field::kModel, model_}});
    // Nothing else ends a write that waits for the reader. gRPC calls the
    // reactor from threads of its own.
    context_.TryCancel();
    return;
  }
  const std::shared_ptr<ResultStream> stream = stream_;
  lock.unlock();
  if (stream != nullptr) stream->FailIfExpired();
}

void TraceReactor::OnDone() {
  std::shared_ptr<TraceReactor> self;
  TraceRecord record;
  {
    std::lock_guard lock(mutex_);
    self = std::move(self_);
    if (stream_ != nullptr) stream_->Close();
    record = Record();
  }
  LogTrace(record);
  parts_.metrics->CountTrace(record);
  parts_.watch->Remove(this);
}

TraceRecord TraceReactor::Record() const {
  const absl::Time now = parts_.clock->Now();
  TraceRecord record = {.tag = tag_,
                        .caller = caller_.key,
                        .model = model_,
                        .status = end_.value_or(absl::OkStatus()),
                        .accepted = stream_ != nullptr,
                        .totals = totals_,
                        .whole_time = now - started_at_};
  if (record.accepted) record.plan_time = planned_at_ - started_at_;
  if (totals_.computed_at < now) {
    record.delivery_time = now - totals_.computed_at;
  }
  return record;
}

}  // namespace phitap
