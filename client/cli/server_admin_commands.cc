#include <map>
#include <memory>
#include <string>

#include "client/cli/commands.h"
#include "server/base/status_macros.h"

namespace phitap::cli {
namespace {

const std::map<std::string, v1::LogVerbosity>& Levels() {
  static const std::map<std::string, v1::LogVerbosity> levels = {
      {"debug", v1::LOG_VERBOSITY_DEBUG},
      {"info", v1::LOG_VERBOSITY_INFO},
      {"warning", v1::LOG_VERBOSITY_WARNING},
      {"error", v1::LOG_VERBOSITY_ERROR}};
  return levels;
}

// Says what the server does now.
void Report(const std::string& key, const std::string& value,
            const std::string& text, Invocation* invocation) {
  if (invocation->flags().json) {
    invocation->PrintJson(Json{{key, value}});
  } else {
    invocation->Print(text);
  }
}

absl::Status Drain(const client::Client& client, Invocation* invocation) {
  RETURN_IF_ERROR(client.admin().DrainServer(invocation->call_options()));
  Report("server", "stopping",
         "the server refuses new traces after its grace, finishes those that "
         "it accepted, and ends\n",
         invocation);
  return absl::OkStatus();
}

absl::Status SetLogLevel(const client::Client& client, const std::string& level,
                         Invocation* invocation) {
  RETURN_IF_ERROR(client.admin().SetLogLevel(Levels().at(level),
                                             invocation->call_options()));
  Report("log_level", level, "the server logs from " + level + " on\n",
         invocation);
  return absl::OkStatus();
}

}  // namespace

void AddDrainCommand(CLI::App* app, Invocation* invocation) {
  CLI::App* command = app->add_subcommand(
      "drain", "Stops the server once what it accepted has ended (admin)");
  command->footer("Examples:\n  phitap drain --server 10.0.0.7:7777");
  command->callback([invocation] {
    invocation->SetWork([invocation](const client::Client& client) {
      return Drain(client, invocation);
    });
  });
}

void AddLogLevelCommand(CLI::App* app, Invocation* invocation) {
  CLI::App* command = app->add_subcommand(
      "log-level", "Changes which log lines the server writes (admin)");
  auto level = std::make_shared<std::string>();
  command->add_option("level", *level, "debug, info, warning or error")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}))
      ->required();
  command->footer("Examples:\n  phitap log-level debug");
  command->callback([level, invocation] {
    invocation->SetWork([level, invocation](const client::Client& client) {
      return SetLogLevel(client, *level, invocation);
    });
  });
}

}  // namespace phitap::cli
