// Who calls, and whether it may.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_RPC_AUTHENTICATOR_H_
#define PHITAP_SERVER_RPC_AUTHENTICATOR_H_

#include <grpcpp/server_context.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/identity/identity.h"

namespace phitap {

// Who makes a call.
struct Caller {
  // Turns and bytes are counted, and rows are shared, by it: the identity's
  // name, or the connection (the other end's address and port) where it has
  // none. Whoever may open a unix socket without saying who it is, is one
  // caller: nothing tells its connections apart.
  std::string key;
  // Whose named tensors it sees. Never null.
  std::shared_ptr<const Identity> identity;
};

// Thread-safe. Outlives the calls.
class Authenticator {
 public:
  // Callers do not have to say who they are; all have the roles of `anonymous`.
  explicit Authenticator(Identity anonymous);

  // The caller, if it may do what `role` stands for. UNAUTHENTICATED where
  // nobody knows it, PERMISSION_DENIED where it lacks the role: the message
  // names the role and how to get in, never a secret.
  absl::StatusOr<Caller> Admit(const grpc::CallbackServerContext& context,
                               Role role) const;

 private:
  const std::shared_ptr<const Identity> anonymous_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_RPC_AUTHENTICATOR_H_
