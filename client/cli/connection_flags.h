// The flags that say which server is called, how, and by whom.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CLI_CONNECTION_FLAGS_H_
#define PHITAP_CLIENT_CLI_CONNECTION_FLAGS_H_

#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "client/cpp/channel.h"

namespace phitap::cli {

struct ConnectionFlags {
  std::string server = "127.0.0.1:7777";
  // A file with a token; empty for none. There is no flag with the token
  // itself: everybody on the machine sees a program's flags.
  std::string token_file;
  bool tls = false;
  // See client::Tls; any of them asks for TLS.
  std::string authority_path;
  std::string certificate_path;
  std::string key_path;
  std::string server_name;
};

// Also from the environment: PHITAP_SERVER, PHITAP_TOKEN_FILE, PHITAP_CA,
// PHITAP_CERT, PHITAP_KEY, PHITAP_SERVER_NAME. `flags` outlives `app`.
void AddConnectionFlags(CLI::App* app, ConnectionFlags* flags);

// With the token of the file, else of the environment's PHITAP_TOKEN.
// INVALID_ARGUMENT for a token file that cannot be read or is empty;
// FAILED_PRECONDITION for one that others on the machine may read.
absl::StatusOr<client::ClientOptions> ToClientOptions(
    const ConnectionFlags& flags);

}  // namespace phitap::cli

#endif  // PHITAP_CLIENT_CLI_CONNECTION_FLAGS_H_
