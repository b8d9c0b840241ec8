// How long a call may take.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_RPC_CALL_PATIENCE_H_
#define PHITAP_SERVER_RPC_CALL_PATIENCE_H_

#include <grpcpp/server_context.h>

#include "absl/time/time.h"
#include "server/rpc/service_parts.h"

namespace phitap {

// What is left to the call's deadline, at most the longest that any trace gets;
// the usual one's where the client names none.
absl::Duration PatienceOf(const grpc::CallbackServerContext& context,
                          const ServiceLimits& limits);

}  // namespace phitap

#endif  // PHITAP_SERVER_RPC_CALL_PATIENCE_H_
