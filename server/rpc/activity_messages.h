// What the server is doing, as a message.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_RPC_ACTIVITY_MESSAGES_H_
#define PHITAP_SERVER_RPC_ACTIVITY_MESSAGES_H_

#include "phitap/v1/admin_service.pb.h"
#include "server/rpc/service_parts.h"

namespace phitap {

// Callers by what they have there, the most first.
v1::WatchActivityResponse DescribeActivity(const ServiceParts& parts);

}  // namespace phitap

#endif  // PHITAP_SERVER_RPC_ACTIVITY_MESSAGES_H_
