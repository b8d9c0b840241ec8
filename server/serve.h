// Serves what the configuration says, until the server is to stop.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_SERVE_H_
#define PHITAP_SERVER_SERVE_H_

#include "absl/status/status.h"
#include "server/config.h"
#include "server/stop_request.h"

namespace phitap {

// Listens, loads the configured models, says that it is ready, and blocks until
// `stop` is asked and what was accepted has ended. The error of a start that
// failed, which names the flag; DEADLINE_EXCEEDED where requests were cancelled
// because they took too long to end. An administrator may ask `stop`, too.
absl::Status Serve(ServerConfig config, StopRequest& stop);

}  // namespace phitap

#endif  // PHITAP_SERVER_SERVE_H_
