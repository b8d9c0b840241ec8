// What the standard health service, grpc.health.v1, says of a server.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CPP_HEALTH_H_
#define PHITAP_CLIENT_CPP_HEALTH_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"

namespace phitap::client {

// As health.proto numbers them.
enum class ServingStatus {
  kUnknown = 0,
  kServing = 1,
  kNotServing = 2,
  kServiceUnknown = 3,
};

// SERVING and so on.
absl::string_view NameOf(ServingStatus status);

// One Check of `service`, or of the whole server where it is empty. NOT_FOUND
// for a service that the server does not have, DATA_LOSS for an answer that is
// none.
absl::StatusOr<ServingStatus> CheckHealth(
    const std::shared_ptr<grpc::Channel>& channel, grpc::ClientContext* context,
    absl::string_view service);

}  // namespace phitap::client

#endif  // PHITAP_CLIENT_CPP_HEALTH_H_
