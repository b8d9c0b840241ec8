#include "server/base/refusal_reason.h"

#include <utility>

#include "absl/strings/cord.h"

namespace phitap {
namespace {

constexpr char kReasonPayload[] = "phitap/refusal-reason";

RefusalReason ReasonOfCode(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kUnauthenticated:
      return RefusalReason::kUnauthenticated;
    case absl::StatusCode::kPermissionDenied:
      return RefusalReason::kForbidden;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kFailedPrecondition:
      return RefusalReason::kInvalid;
    case absl::StatusCode::kNotFound:
      return RefusalReason::kUnknownName;
    case absl::StatusCode::kResourceExhausted:
      return RefusalReason::kTooLarge;
    default:
      return RefusalReason::kOther;
  }
}

}  // namespace

absl::string_view Name(RefusalReason reason) {
  switch (reason) {
    case RefusalReason::kUnauthenticated:
      return "unauthenticated";
    case RefusalReason::kForbidden:
      return "forbidden";
    case RefusalReason::kInvalid:
      return "invalid";
    case RefusalReason::kUnknownName:
      return "unknown_name";
    case RefusalReason::kTooLarge:
      return "too_large";
    case RefusalReason::kQueueFull:
      return "queue_full";
    case RefusalReason::kCallerQueueFull:
      return "caller_queue_full";
    case RefusalReason::kMemory:
      return "memory";
    case RefusalReason::kCallerMemory:
      return "caller_memory";
    case RefusalReason::kPlanningBacklog:
      return "planning_backlog";
    case RefusalReason::kRequestQuota:
      return "request_quota";
    case RefusalReason::kByteQuota:
      return "byte_quota";
    case RefusalReason::kTokenQuota:
      return "token_quota";
    case RefusalReason::kStopping:
      return "stopping";
    case RefusalReason::kOther:
      return "other";
  }
  return "other";
}

absl::Status WithRefusalReason(absl::Status status, RefusalReason reason) {
  const absl::string_view name = Name(reason);
  status.SetPayload(kReasonPayload, absl::Cord(name));
  return status;
}

RefusalReason RefusalReasonOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kReasonPayload);
  if (!payload.has_value()) return ReasonOfCode(status.code());
  for (RefusalReason reason : kRefusalReasons) {
    if (*payload == Name(reason)) return reason;
  }
  return RefusalReason::kOther;
}

}  // namespace phitap
