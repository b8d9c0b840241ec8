// What administrators do with a server's models.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CLI_MODEL_ADMIN_COMMANDS_H_
#define PHITAP_CLIENT_CLI_MODEL_ADMIN_COMMANDS_H_

#include "CLI/CLI.hpp"
#include "client/cli/invocation.h"

namespace phitap::cli {

// Adds `states`, `load`, `reload` and `unload` to `models`, which must outlive
// the invocation's use.
void AddModelAdminCommands(CLI::App* models, Invocation* invocation);

}  // namespace phitap::cli

#endif  // PHITAP_CLIENT_CLI_MODEL_ADMIN_COMMANDS_H_
