// The connection to a server: its address, its encryption, and who calls.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CPP_CHANNEL_H_
#define PHITAP_CLIENT_CPP_CHANNEL_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/channel.h"

namespace phitap::client {

// An encrypted connection. Files are PEM.
struct Tls {
  // The authorities that may have signed the server's certificate; empty for
  // the system's.
  std::string authority_path;
  // The client's own certificate and its key; empty for none.
  std::string certificate_path;
  std::string key_path;
  // What the server's certificate has to name, where that is not the address.
  std::string server_name;
};

struct ClientOptions {
  // HOST:PORT, or unix:PATH.
  std::string address = "127.0.0.1:7777";
  // Unset: not encrypted.
  std::optional<Tls> tls;
  // What shows who calls; empty for none. Never sent over the network without
  // encryption.
  std::string token;
  // How long a connection may take to come about.
  absl::Duration connect_timeout = absl::Seconds(5);
};

// A channel that need not be connected yet, whose calls all carry the token.
// INVALID_ARGUMENT for a malformed address or token, a file that cannot be read
// or has no PEM, and a token that would go to another machine unencrypted; no
// message has the token.
absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(
    const ClientOptions& options);

}  // namespace phitap::client

#endif  // PHITAP_CLIENT_CPP_CHANNEL_H_
