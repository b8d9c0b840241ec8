// Where connections come in. gRPC's own listeners end for good once the process
// has no file left to accept with; these keep some files free, turn away what
// comes beyond that, and go on.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_RPC_LISTENER_H_
#define PHITAP_SERVER_RPC_LISTENER_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "server/rpc/passed_sockets.h"

namespace phitap {

// Files that connections leave free, for models, tensors and the rest.
inline constexpr int kKeptFiles = 64;

struct AcceptedConnection {
  int listening_file = -1;
  // The receiver's to close.
  int file = -1;
};

// Thread-compatible.
class Listener {
 public:
  // Takes HOST:PORT, every address of the host's on one port (0 takes a free
  // one), or unix:PATH. UNAVAILABLE if it cannot.
  static absl::StatusOr<std::unique_ptr<Listener>> Open(
      const std::string& listen);
  // Takes sockets that listen already, at least one, and closes them in the
  // end: what connects after that waits if somebody else has them open.
  static absl::StatusOr<std::unique_ptr<Listener>> Adopt(
      const std::vector<PassedSocket>& sockets);
  // Takes no more connections; those that came first live on.
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // As `listen`, with the port that was taken; of adopted sockets the first's.
  const std::string& address() const { return address_; }

  // Calls `take` for each connection, on a thread of the listener's. Once.
  void Start(std::function<void(const AcceptedConnection&)> take);

 private:
  Listener() = default;
  static absl::StatusOr<std::unique_ptr<Listener>> Make();
  absl::Status OpenPath(const std::string& path);
  absl::Status OpenPort(const std::string& listen);
  void AcceptAll();
  void Accept(int listening_file);

  std::string address_;
  // Removed in the end; empty for a port.
  std::string path_;
  std::vector<int> files_;
  // Written to when it is time to stop.
  int stop_file_ = -1;
  // Whether the last connection was turned away.
  bool turns_away_ = false;
  std::function<void(const AcceptedConnection&)> take_;
  std::thread thread_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_RPC_LISTENER_H_
