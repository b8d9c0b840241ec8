// Sockets that systemd listens on and passes to the server: sd_listen_fds(3).
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_RPC_PASSED_SOCKETS_H_
#define PHITAP_SERVER_RPC_PASSED_SOCKETS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace phitap {

// Where systemd begins to count.
inline constexpr int kFirstPassedFile = 3;

// A stream socket that listens already: systemd holds it open, too, so that
// connections wait in it while no server runs.
struct PassedSocket {
  int file = -1;
  // HOST:PORT or unix:PATH (unix:@NAME without a path).
  std::string address;
};

// Those that the environment variables LISTEN_PID and LISTEN_FDS give this
// process; none where they give it none. INVALID_ARGUMENT where one of the
// files is no socket that takes connections.
absl::StatusOr<std::vector<PassedSocket>> PassedSockets(
    int first_file = kFirstPassedFile);

}  // namespace phitap

#endif  // PHITAP_SERVER_RPC_PASSED_SOCKETS_H_
