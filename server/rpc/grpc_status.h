// absl::Status to grpc::Status: the one place that converts.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_RPC_GRPC_STATUS_H_
#define PHITAP_SERVER_RPC_GRPC_STATUS_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace phitap {

// Trailing metadata that carries the path of the offending field.
inline constexpr char kFieldMetadata[] = "phitap-field";
// Trailing metadata that carries, in milliseconds, when to try again: gRPC's
// own, which clients that are configured to retry keep to.
inline constexpr char kRetryMetadata[] = "grpc-retry-pushback-ms";

// The codes are the same numbers. Messages are cut to what every client's
// limit for trailers (8 KiB) holds, since they may quote the request.
grpc::Status ToGrpc(const absl::Status& status);

// ToGrpc, with the field of a status made by InvalidField and the hint of one
// made by WithRetryHint in the call's trailing metadata. Call before the call
// is finished.
grpc::Status ToGrpc(const absl::Status& status,
                    grpc::CallbackServerContext& context);

}  // namespace phitap

#endif  // PHITAP_SERVER_RPC_GRPC_STATUS_H_
