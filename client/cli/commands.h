// The subcommands: each adds itself and leaves its work with the invocation.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CLI_COMMANDS_H_
#define PHITAP_CLIENT_CLI_COMMANDS_H_

#include "CLI/CLI.hpp"
#include "client/cli/invocation.h"

namespace phitap::cli {

// `app` and `invocation` must outlive each other's use.
void AddModelsCommand(CLI::App* app, Invocation* invocation);
void AddHealthCommand(CLI::App* app, Invocation* invocation);
void AddHooksCommand(CLI::App* app, Invocation* invocation);
void AddTokenizeCommand(CLI::App* app, Invocation* invocation);
void AddDetokenizeCommand(CLI::App* app, Invocation* invocation);
void AddPlanCommand(CLI::App* app, Invocation* invocation);
void AddTraceCommand(CLI::App* app, Invocation* invocation);
void AddSweepCommand(CLI::App* app, Invocation* invocation);
void AddGenerateCommand(CLI::App* app, Invocation* invocation);
void AddTensorsCommand(CLI::App* app, Invocation* invocation);
void AddDrainCommand(CLI::App* app, Invocation* invocation);
void AddLogLevelCommand(CLI::App* app, Invocation* invocation);
void AddTopCommand(CLI::App* app, Invocation* invocation);
void AddTokenCommand(CLI::App* app, Invocation* invocation);
void AddCompletionCommand(CLI::App* app, Invocation* invocation);

}  // namespace phitap::cli

#endif  // PHITAP_CLIENT_CLI_COMMANDS_H_
