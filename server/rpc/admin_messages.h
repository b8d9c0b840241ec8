// Models' states as the wire has them.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_RPC_ADMIN_MESSAGES_H_
#define PHITAP_SERVER_RPC_ADMIN_MESSAGES_H_

#include <optional>

#include "phitap/v1/admin_service.pb.h"
#include "server/models/model_keeper.h"
#include "server/models/model_state.h"
#include "server/observe/log.h"

namespace phitap {

v1::ModelState DescribeState(const ModelState& state,
                             const ModelKeeper& keeper);

// By name: every model that the server knows of.
v1::ListModelStatesResponse DescribeStates(const ModelKeeper& keeper);

// None for values that are refused.
std::optional<LogLevel> FromWire(v1::LogVerbosity verbosity);

}  // namespace phitap

#endif  // PHITAP_SERVER_RPC_ADMIN_MESSAGES_H_
