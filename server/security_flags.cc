#include "server/security_flags.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"

namespace phitap {
namespace {

constexpr int64_t kMaxMetadataBytes = 1 << 20;

// A flag with a file's name; empty for none.
Flag FileFlag(const char* name, const char* help, std::string& path) {
  return {name, "FILE", help, {""}, [&path](const FlagText& given) {
            path = given.text;
            return absl::OkStatus();
          }};
}

absl::StatusOr<std::set<Role>> ParseRoles(const FlagText& given) {
  std::set<Role> roles;
  if (given.text == "none") return roles;
  for (const std::string& name :
       std::vector<std::string>(absl::StrSplit(given.text, ','))) {
    const std::optional<Role> role = RoleOf(name);
    if (!role.has_value()) {
      return InvalidFlag(given,
                         "none, or some of trace, tensors, admin with commas "
                         "between them");
    }
    roles.insert(*role);
  }
  return roles;
}

void AddTlsFlags(ServerConfig& config, std::deque<Flag>& flags) {
  flags.push_back(FileFlag(
      "--tls-cert",
      "PEM certificate (with those up to its authority) to encrypt with; read "
      "again when it changes",
      config.rpc.tls.certificate_path));
  flags.push_back(FileFlag("--tls-key", "PEM key of the certificate",
                           config.rpc.tls.key_path));
  flags.push_back(
      FileFlag("--tls-client-ca",
               "PEM certificates of the authorities that sign clients' own; "
               "without it clients show none",
               config.rpc.tls.client_authority_path));
  flags.push_back({"--tls-client-certs",
                   "require|accept",
                   "Whether a client has to show a certificate, or may",
                   {"require"},
                   [&config](const FlagText& given) -> absl::Status {
                     ASSIGN_OR_RETURN(
                         config.rpc.tls.client_certificates,
                         ParseChoice<ClientCertificates>(
                             given, {{"require", ClientCertificates::kRequire},
                                     {"accept", ClientCertificates::kAccept}}));
                     return absl::OkStatus();
                   }});
  flags.push_back(
      {"--insecure-listen",
       "on|off",
       "Whether to listen without encryption where other machines "
       "can connect",
       {"off"},
       [&config](const FlagText& given) -> absl::Status {
         ASSIGN_OR_RETURN(
             config.insecure_listen,
             ParseChoice<bool>(given, {{"on", true}, {"off", false}}));
         return absl::OkStatus();
       }});
}

absl::Status SettleTls(TlsOptions& tls) {
  if (tls.certificate_path.empty() != tls.key_path.empty()) {
    return InvalidField(
        {.field = tls.key_path.empty() ? "--tls-key" : "--tls-cert",
         .problem = "none given",
         .valid = "--tls-cert and --tls-key, or neither"});
  }
  if (tls.client_authority_path.empty()) {
    tls.client_certificates = ClientCertificates::kNone;
    return absl::OkStatus();
  }
  if (tls.enabled()) return absl::OkStatus();
  return InvalidField(
      {.field = "--tls-client-ca",
       .problem = "clients show certificates on encrypted connections alone",
       .valid = "with --tls-cert and --tls-key"});
}

}  // namespace

void AddSecurityFlags(ServerConfig& config, std::deque<Flag>& flags) {
  flags.push_back(FileFlag("--tokens",
                           "JSON file of who may call: names, roles, hashes of "
                           "tokens, quotas; read again when it changes",
                           config.tokens_path));
  flags.push_back({"--anonymous-roles",
                   "none|ROLE,…",
                   "What callers may do that do not say who they are: trace, "
                   "tensors, admin; default: trace,tensors, and none with "
                   "--tokens",
                   {"default"},
                   [&config](const FlagText& given) -> absl::Status {
                     if (given.text == "default") return absl::OkStatus();
                     ASSIGN_OR_RETURN(config.anonymous_roles,
                                      ParseRoles(given));
                     return absl::OkStatus();
                   }});
  AddTlsFlags(config, flags);
  flags.push_back({"--max-metadata-bytes",
                   "SIZE",
                   "Bytes of the headers of one call",
                   {"16KiB"},
                   [&config](const FlagText& given) -> absl::Status {
                     ASSIGN_OR_RETURN(const int64_t bytes,
                                      ParseBytes(given, kMaxMetadataBytes));
                     config.rpc.max_metadata_bytes = static_cast<int>(bytes);
                     return absl::OkStatus();
                   }});
}

absl::Status SettleSecurity(ServerConfig& config) {
  RETURN_IF_ERROR(SettleTls(config.rpc.tls));
  if (!config.anonymous_roles.has_value()) {
    config.anonymous_roles = config.tokens_path.empty()
                                 ? std::set<Role>{Role::kTrace, Role::kTensors}
                                 : std::set<Role>();
  }
  const std::vector<std::string> addresses = config.rpc.addresses();
  const auto open =
      std::find_if(addresses.begin(), addresses.end(), ReachableFromElsewhere);
  if (open == addresses.end() || config.rpc.tls.enabled() ||
      config.insecure_listen) {
    return absl::OkStatus();
  }
  return InvalidField(
      {.field = "--listen",
       .problem = absl::StrCat(*open,
                               " can be reached from other machines, and "
                               "nothing would be encrypted"),
       .valid = "with --tls-cert and --tls-key, at 127.0.0.1 or a unix socket, "
                "or with --insecure-listen on"});
}

}  // namespace phitap
