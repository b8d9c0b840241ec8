// Who asks.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_RPC_CALLER_H_
#define PHITAP_SERVER_RPC_CALLER_H_

#include <grpcpp/server_context.h>

#include <string>

namespace phitap {

// The connection: the other end's address and port. Whoever may open a unix
// socket is one caller: nothing tells its connections apart.
inline std::string CallerOf(const grpc::CallbackServerContext& context) {
  return context.peer();
}

}  // namespace phitap

#endif  // PHITAP_SERVER_RPC_CALLER_H_
