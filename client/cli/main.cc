// phitap: reads and changes what happens inside a served model, from the
// command line.
// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <string>

#include "CLI/CLI.hpp"
#include "client/cli/commands.h"
#include "client/cli/connection_flags.h"
#include "client/cli/exit_status.h"
#include "client/cli/interrupt.h"
#include "client/cli/invocation.h"
#include "client/cpp/cancellation.h"

namespace phitap::cli {
namespace {

constexpr char kFooter[] =
    "Exit status: 0 done, 1 the request failed, 2 wrong usage, 3 no server "
    "answered,\n130 interrupted.\n\n"
    "Examples:\n"
    "  phitap models\n"
    "  phitap hooks demo\n"
    "  phitap trace -p 'When Mary and John went to the store, John gave a "
    "drink to' -c 'layers.*.layer_output' --lens 5\n"
    "  phitap generate -p 'When Mary and John went' -i "
    "'layers.2.layer_output@positions=-1 zero'\n"
    "  phitap sweep --help";

void AddGlobalFlags(CLI::App* app, GlobalFlags* flags) {
  AddConnectionFlags(app, &flags->connection);
  app->add_option("--timeout", flags->timeout_s,
                  "Seconds that a call may take; default: the server's limit")
      ->type_name("SECONDS")
      ->check(CLI::PositiveNumber);
  app->add_flag("--json", flags->json, "Print one JSON document");
  const std::map<std::string, ColorChoice> choices = {
      {"auto", ColorChoice::kAuto},
      {"always", ColorChoice::kAlways},
      {"never", ColorChoice::kNever}};
  app->add_option_function<std::string>(
         "--color",
         [flags, choices](const std::string& choice) {
           flags->color = choices.at(choice);
         },
         "auto, always or never; auto respects NO_COLOR")
      ->type_name("WHEN")
      ->check(CLI::IsMember({"auto", "always", "never"}));
}

void AddCommands(CLI::App* app, Invocation* invocation) {
  AddModelsCommand(app, invocation);
  AddHealthCommand(app, invocation);
  AddHooksCommand(app, invocation);
  AddTokenizeCommand(app, invocation);
  AddDetokenizeCommand(app, invocation);
  AddPlanCommand(app, invocation);
  AddTraceCommand(app, invocation);
  AddSweepCommand(app, invocation);
  AddGenerateCommand(app, invocation);
  AddTensorsCommand(app, invocation);
  AddDrainCommand(app, invocation);
  AddLogLevelCommand(app, invocation);
  AddTopCommand(app, invocation);
  AddTokenCommand(app, invocation);
  AddCompletionCommand(app, invocation);
}

int Main(int argc, char** argv) {
  client::Cancellation cancellation;
  const InterruptWatch watch(&cancellation);
  Invocation invocation(&cancellation);
  CLI::App app("Reads and changes what happens inside served Phi-3 models.",
               "phitap");
  AddGlobalFlags(&app, &invocation.flags());
  app.require_subcommand(1);
  // Global flags may follow the subcommand.
  app.fallthrough();
  app.footer(kFooter);
  AddCommands(&app, &invocation);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitOk : kExitUsage;
  }
  return invocation.Run();
}

}  // namespace
}  // namespace phitap::cli

int main(int argc, char** argv) { return phitap::cli::Main(argc, argv); }
