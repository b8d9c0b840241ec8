#include "server/rpc/authenticator.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace phitap {

Authenticator::Authenticator(Identity anonymous)
    : anonymous_(std::make_shared<const Identity>(std::move(anonymous))) {}

absl::StatusOr<Caller> Authenticator::Admit(
    const grpc::CallbackServerContext& context, Role role) const {
  if (anonymous_->roles.count(role) == 0) {
    return absl::PermissionDeniedError(absl::StrCat(
        "this call needs the role `", Name(role),
        "`, which callers that do not say who they are lack here"));
  }
  return Caller{.key = context.peer(), .identity = anonymous_};
}

}  // namespace phitap
