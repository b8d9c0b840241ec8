// The flags that say who may do what.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_SECURITY_FLAGS_H_
#define PHITAP_SERVER_SECURITY_FLAGS_H_

#include <deque>

#include "absl/status/status.h"
#include "server/config.h"
#include "server/server_flags.h"

namespace phitap {

// See ServerFlags.
void AddSecurityFlags(ServerConfig& config, std::deque<Flag>& flags);

// What the flags say together, once all have been read: sets what depends on
// others. INVALID_ARGUMENT names the flag that is missing or too much.
absl::Status SettleSecurity(ServerConfig& config);

}  // namespace phitap

#endif  // PHITAP_SERVER_SECURITY_FLAGS_H_
