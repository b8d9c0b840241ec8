#include "server/rpc/authenticator.h"

#include <grpcpp/security/auth_context.h>

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/base/status_macros.h"

namespace phitap {
namespace {

constexpr char kAuthorization[] = "authorization";
constexpr absl::string_view kScheme = "Bearer ";
// What gRPC calls the names in a certificate.
constexpr const char* kCertificateNames[] = {"x509_subject_alternative_name",
                                             "x509_common_name"};

absl::string_view View(grpc::string_ref text) {
  return absl::string_view(text.data(), text.size());
}

// Null where there is no certificate, or nobody is known by one of its names.
std::shared_ptr<const Identity> OfCertificate(const grpc::AuthContext& peer,
                                              const IdentityTable& table) {
  for (const char* kind : kCertificateNames) {
    for (const grpc::string_ref& name : peer.FindPropertyValues(kind)) {
      std::shared_ptr<const Identity> identity =
          table.OfCertificate(View(name));
      if (identity != nullptr) return identity;
    }
  }
  return nullptr;
}

Caller Named(std::shared_ptr<const Identity> identity) {
  return {.key = identity->name, .identity = std::move(identity)};
}

}  // namespace

OwnedTensors TensorsOf(const Caller& caller, NamedTensors& tensors) {
  return tensors.Of({.name = caller.identity->name,
                     .max_bytes = caller.identity->quotas.max_tensor_bytes});
}

Authenticator::Authenticator(Identity anonymous, const IdentityFile* identities)
    : anonymous_(std::make_shared<const Identity>(std::move(anonymous))),
      identities_(identities) {}

absl::StatusOr<Caller> Authenticator::Admit(
    const grpc::CallbackServerContext& context, Role role) const {
  ASSIGN_OR_RETURN(Caller caller, Identify(context));
  if (caller.identity->name.empty() && caller.identity->roles.empty()) {
    return absl::UnauthenticatedError(absl::StrCat(
        "this call needs the role `", Name(role),
        "`, and the server lets nobody in who does not say who it is: send a "
        "token (`authorization: Bearer TOKEN`), or a client certificate that "
        "it knows"));
  }
  RETURN_IF_ERROR(CheckRole(*caller.identity, role, ""));
  return caller;
}

absl::StatusOr<Caller> Authenticator::Identify(
    const grpc::CallbackServerContext& context) const {
  const auto [first, last] =
      context.client_metadata().equal_range(kAuthorization);
  if (first != last && std::next(first) != last) {
    return absl::UnauthenticatedError("`authorization` is sent more than once");
  }
  if (first != last) return OfToken(View(first->second));
  if (identities_ != nullptr) {
    std::shared_ptr<const Identity> identity =
        OfCertificate(*context.auth_context(), *identities_->table());
    if (identity != nullptr) return Named(std::move(identity));
  }
  return Caller{.key = context.peer(), .identity = anonymous_};
}

absl::StatusOr<Caller> Authenticator::OfToken(
    absl::string_view authorization) const {
  // Never taken for nobody: who sends a token means to be known by it.
  if (identities_ == nullptr) {
    return absl::UnauthenticatedError(
        "this server knows no tokens (it was started without --tokens): call "
        "without one");
  }
  if (!absl::StartsWithIgnoreCase(authorization, kScheme)) {
    return absl::UnauthenticatedError(
        "`authorization` is sent in another way than `Bearer TOKEN`");
  }
  std::shared_ptr<const Identity> identity =
      identities_->table()->OfToken(authorization.substr(kScheme.size()));
  if (identity == nullptr) {
    return absl::UnauthenticatedError(
        "nobody has the token that was sent: it is mistyped, or no longer "
        "good");
  }
  return Named(std::move(identity));
}

}  // namespace phitap
