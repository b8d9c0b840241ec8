// Who calls, and whether it may.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_RPC_AUTHENTICATOR_H_
#define PHITAP_SERVER_RPC_AUTHENTICATOR_H_

#include <grpcpp/server_context.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/identity/identity.h"
#include "server/identity/identity_file.h"
#include "server/tensors/named_tensors.h"

namespace phitap {

// Who makes a call.
struct Caller {
  // Turns and bytes are counted, and rows are shared, by it: the identity's
  // name, or the connection (the other end's address and port) where it has
  // none. Whoever may open a unix socket without saying who it is, is one
  // caller: nothing tells its connections apart.
  std::string key;
  // Whose named tensors it sees. Never null.
  std::shared_ptr<const Identity> identity = std::make_shared<Identity>();
};

// Of all that are kept, the caller's.
OwnedTensors TensorsOf(const Caller& caller, NamedTensors& tensors);

// Thread-safe. Outlives the calls.
class Authenticator {
 public:
  // Callers that do not say who they are, are `anonymous`, which has no name.
  // The others are in `identities`, which outlives this; null where nobody is.
  explicit Authenticator(Identity anonymous,
                         const IdentityFile* identities = nullptr);

  // The caller, if it may do what `role` stands for: whoever sent a token
  // (`authorization: Bearer TOKEN`), else whoever a client certificate names.
  // UNAUTHENTICATED for a token that nobody has, and where nobody may call
  // without saying who it is; PERMISSION_DENIED where the caller lacks the
  // role. The message says how to get in, and never has a secret.
  absl::StatusOr<Caller> Admit(const grpc::CallbackServerContext& context,
                               Role role) const;

 private:
  absl::StatusOr<Caller> Identify(
      const grpc::CallbackServerContext& context) const;
  absl::StatusOr<Caller> OfToken(absl::string_view authorization) const;

  const std::shared_ptr<const Identity> anonymous_;
  const IdentityFile* const identities_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_RPC_AUTHENTICATOR_H_
