#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/commands.h"
#include "server/base/status_macros.h"
#include "server/identity/identity_table.h"
#include "server/identity/token.h"

namespace phitap::cli {
namespace {

constexpr char kFooter[] =
    "Prints a new token, which is kept nowhere, and the entry that lets it in, "
    "for the list\n`identities` of the file that phitapd --tokens names. Give "
    "the token to its owner, who\nkeeps it in a file (phitap --token-file) or "
    "in PHITAP_TOKEN.\n\n"
    "Examples:\n"
    "  phitap token new --name alice --roles trace,tensors\n"
    "  phitap token new --name ops --roles admin --json";

struct TokenFlags {
  std::string name;
  std::string roles = "trace,tensors";
};

absl::Status PrintNewToken(const TokenFlags& flags, Invocation* invocation) {
  const std::string token = NewToken();
  const Json entry = {
      {"name", flags.name},
      {"roles", std::vector<std::string>(absl::StrSplit(flags.roles, ','))},
      {"tokens", Json::array({TokenHash::Of(token)->text()})}};
  // The server would refuse what this refuses.
  RETURN_IF_ERROR(
      IdentityTable::Parse(Json({{"identities", Json::array({entry})}}).dump(),
                           "phitap token new")
          .status());
  if (invocation->flags().json) {
    invocation->PrintJson({{"token", token}, {"identity", entry}});
  } else {
    invocation->Print(
        absl::StrCat("token: ", token, "\nentry: ", entry.dump(), "\n"));
  }
  return absl::OkStatus();
}

}  // namespace

void AddTokenCommand(CLI::App* app, Invocation* invocation) {
  CLI::App* command =
      app->add_subcommand("token", "Make tokens that say who calls");
  command->require_subcommand(1);
  CLI::App* make = command->add_subcommand("new", "Make a token");
  make->footer(kFooter);
  const auto flags = std::make_shared<TokenFlags>();
  make->add_option("--name", flags->name, "What logs call its owner")
      ->type_name("NAME")
      ->required();
  make->add_option("--roles", flags->roles, "Some of trace, tensors, admin")
      ->type_name("ROLE,…")
      ->capture_default_str();
  make->callback([flags, invocation] {
    invocation->SetOfflineWork(
        [flags, invocation] { return PrintNewToken(*flags, invocation); });
  });
}

}  // namespace phitap::cli
