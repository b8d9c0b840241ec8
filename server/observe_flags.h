// The flags that say what of the server is seen from outside.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_OBSERVE_FLAGS_H_
#define PHITAP_SERVER_OBSERVE_FLAGS_H_

#include <deque>

#include "server/config.h"
#include "server/server_flags.h"

namespace phitap {

// See ServerFlags.
void AddObserveFlags(ServerConfig& config, std::deque<Flag>& flags);

}  // namespace phitap

#endif  // PHITAP_SERVER_OBSERVE_FLAGS_H_
