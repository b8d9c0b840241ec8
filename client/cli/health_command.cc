#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/cli/commands.h"
#include "client/cpp/health.h"
#include "server/base/status_macros.h"

namespace phitap::cli {
namespace {

constexpr absl::Duration kBetweenChecks = absl::Milliseconds(100);

struct HealthFlags {
  // Empty for the whole server.
  std::string service;
  double wait_s = 0;
};

// Asks until the answer is SERVING or the time is over; the last answer.
absl::StatusOr<client::ServingStatus> AskUntilServing(
    const client::Client& client, const HealthFlags& flags,
    const client::CallOptions& options) {
  const absl::Time end = absl::Now() + absl::Seconds(flags.wait_s);
  while (true) {
    const absl::StatusOr<client::ServingStatus> status =
        client.CheckHealth(flags.service, options);
    const bool may_change = status.ok()
                                ? *status != client::ServingStatus::kServing
                                : absl::IsUnavailable(status.status());
    if (!may_change || absl::Now() + kBetweenChecks > end) return status;
    absl::SleepFor(kBetweenChecks);
  }
}

absl::Status ShowHealth(const client::Client& client, const HealthFlags& flags,
                        Invocation* invocation) {
  ASSIGN_OR_RETURN(const client::ServingStatus status,
                   AskUntilServing(client, flags, invocation->call_options()));
  const std::string name(client::NameOf(status));
  if (invocation->flags().json) {
    invocation->PrintJson(Json{{"service", flags.service}, {"status", name}});
  } else {
    invocation->Print(name + "\n");
  }
  if (status == client::ServingStatus::kServing) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat(flags.service.empty() ? "the server" : flags.service,
                   " does not take requests"));
}

}  // namespace

void AddHealthCommand(CLI::App* app, Invocation* invocation) {
  CLI::App* command = app->add_subcommand(
      "health", "Tells whether the server takes requests: status 0 if so");
  auto flags = std::make_shared<HealthFlags>();
  command
      ->add_option("--service", flags->service,
                   "One of its services; default: the server as a whole")
      ->type_name("NAME");
  command
      ->add_option("--wait", flags->wait_s,
                   "Wait so long for it to start and to take requests")
      ->type_name("SECONDS")
      ->check(CLI::NonNegativeNumber);
  command->footer(
      "Examples:\n"
      "  phitap health\n"
      "  phitap health --wait 600 && phitap models\n"
      "  phitap health --service phitap.v1.ActivationService --json");
  command->callback([flags, invocation] {
    invocation->WaitForServer(absl::Seconds(flags->wait_s));
    invocation->SetWork([flags, invocation](const client::Client& client) {
      return ShowHealth(client, *flags, invocation);
    });
  });
}

}  // namespace phitap::cli
