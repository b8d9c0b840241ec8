#include "client/cli/connection_flags.h"

#include <cstdlib>
#include <utility>

#include "absl/strings/ascii.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/identity/private_file.h"

namespace phitap::cli {
namespace {

constexpr char kTokenVariable[] = "PHITAP_TOKEN";
constexpr char kTokenFileFlag[] = "--token-file";

// Empty for none.
absl::StatusOr<std::string> ReadToken(const ConnectionFlags& flags) {
  if (flags.token_file.empty()) {
    const char* token = std::getenv(kTokenVariable);
    return std::string(token == nullptr ? "" : token);
  }
  const absl::StatusOr<std::string> text = ReadPrivateFile(flags.token_file);
  if (!text.ok()) {
    return InvalidField({.field = kTokenFileFlag,
                         .problem = std::string(text.status().message())},
                        absl::IsFailedPrecondition(text.status())
                            ? absl::StatusCode::kFailedPrecondition
                            : absl::StatusCode::kInvalidArgument);
  }
  std::string token(absl::StripAsciiWhitespace(*text));
  if (!token.empty()) return token;
  return InvalidField({.field = kTokenFileFlag,
                       .problem = flags.token_file + " is empty",
                       .valid = "a file with a token"});
}

}  // namespace

void AddConnectionFlags(CLI::App* app, ConnectionFlags* flags) {
  app->add_option("--server", flags->server, "HOST:PORT or unix:PATH")
      ->envname("PHITAP_SERVER")
      ->type_name("ADDRESS")
      ->capture_default_str();
  app->add_option("--token-file", flags->token_file,
                  "File with the token that says who calls; or the "
                  "environment variable PHITAP_TOKEN has it")
      ->envname("PHITAP_TOKEN_FILE")
      ->type_name("FILE");
  app->add_flag("--tls", flags->tls,
                "Encrypt; the system's authorities vouch for the server");
  app->add_option("--ca", flags->authority_path,
                  "Encrypt; these authorities (PEM) vouch for the server")
      ->envname("PHITAP_CA")
      ->type_name("FILE");
  app->add_option("--cert", flags->certificate_path,
                  "Encrypt, and show this certificate (PEM)")
      ->envname("PHITAP_CERT")
      ->type_name("FILE");
  app->add_option("--key", flags->key_path, "The certificate's key (PEM)")
      ->envname("PHITAP_KEY")
      ->type_name("FILE");
  app->add_option("--server-name", flags->server_name,
                  "What the server's certificate names, if not the address")
      ->envname("PHITAP_SERVER_NAME")
      ->type_name("NAME");
}

absl::StatusOr<client::ClientOptions> ToClientOptions(
    const ConnectionFlags& flags) {
  client::ClientOptions options = {.address = flags.server};
  ASSIGN_OR_RETURN(options.token, ReadToken(flags));
  const bool encrypted = flags.tls || !flags.authority_path.empty() ||
                         !flags.certificate_path.empty() ||
                         !flags.server_name.empty();
  if (encrypted) {
    options.tls = client::Tls{.authority_path = flags.authority_path,
                              .certificate_path = flags.certificate_path,
                              .key_path = flags.key_path,
                              .server_name = flags.server_name};
  }
  return options;
}

}  // namespace phitap::cli
