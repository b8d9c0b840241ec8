#include "server/config.h"

#include <CLI/CLI.hpp>
#include <deque>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/build_facts.h"
#include "server/models/model_folder.h"
#include "server/rpc/passed_sockets.h"
#include "server/security_flags.h"
#include "server/server_flags.h"

namespace phitap {
namespace {

constexpr char kExamples[] = R"(Examples:
  phitapd --model phi=/models/Phi-3-mini-4k-instruct
  phitapd --model a=/models/a --model b=/models/b --threads 16
  phitapd --model phi=/models/phi --listen unix:/run/phitap.sock --log-format json
  phitapd --model phi=/models/phi --listen 0.0.0.0:7777 --tls-cert server.pem --tls-key server.key --tokens tokens.json
  phitapd --model phi=/models/phi --state-dir /var/lib/phitap --max-tensor-bytes 20GiB --max-working-bytes 16GiB
  phitapd --model phi=/models/phi --max-sweep-cells 4096 --max-generated-tokens 1024
  phitapd --model phi=/models/phi --max-root-bytes 4GiB --max-caller-bytes 1GiB --share-across-callers on
  phitapd --model phi=/models/phi --metrics-listen 127.0.0.1:9464 --log-format json
  phitapd --model-folder /srv/models --max-model-bytes 40GiB --drain-grace 10s
  phitapd --config /etc/phitap.toml
A configuration file holds the same flags without dashes, one a line:
  model = ["phi=/models/Phi-3-mini-4k-instruct"]
  listen = "127.0.0.1:7777")";

// The error of an argument that is no flag, with the nearest ones.
absl::Status UnknownArgument(const std::string& argument,
                             const std::deque<Flag>& flags) {
  std::vector<std::string> names = {"--config", "--help", "--version"};
  for (const Flag& flag : flags) names.push_back(flag.name);
  const std::string name =
      std::vector<std::string>(absl::StrSplit(argument, '='))[0];
  return InvalidField(
      {.field = argument,
       .problem = "no such flag",
       .valid = absl::StrCat(absl::StrJoin(NearestNames(name, names, 3), ", "),
                             ", … (see --help)")});
}

// Sockets of systemd's that nobody takes would let clients wait forever.
absl::Status SettleSockets(RpcServerOptions& rpc) {
  ASSIGN_OR_RETURN(rpc.sockets, PassedSockets());
  const bool taken = rpc.listen == kListenOnPassedSockets;
  if (taken == !rpc.sockets.empty()) return absl::OkStatus();
  if (taken) {
    return InvalidField({.field = "--listen",
                         .problem = "systemd has passed no socket",
                         .valid = "a start by systemd with phitapd.socket, or "
                                  "HOST:PORT or unix:PATH"});
  }
  return InvalidField(
      {.field = "--listen",
       .problem =
           absl::StrCat("systemd has passed a socket, ", rpc.sockets[0].address,
                        ", which ", rpc.listen, " does not take"),
       .valid = "systemd"});
}

absl::Status Apply(const std::deque<Flag>& flags, ServerConfig& config) {
  for (const Flag& flag : flags) {
    for (const std::string& text : flag.texts) {
      RETURN_IF_ERROR(flag.apply({.flag = flag.name, .text = text}));
    }
  }
  RETURN_IF_ERROR(SettleSockets(config.rpc));
  RETURN_IF_ERROR(SettleSecurity(config));
  RETURN_IF_ERROR(ModelFolder(config.model_folder).Check());
  if (!config.models.empty() || !config.model_folder.empty()) {
    return absl::OkStatus();
  }
  return InvalidField({.field = "--model",
                       .problem = "none given",
                       .valid = "NAME=PATH, at least once, e.g. "
                                "phi=/models/phi, or --model-folder"});
}

ConfigOutcome Refuse(const absl::Status& status) {
  return {.text = absl::StrCat("phitapd: ", std::string(status.message())),
          .exit_code = 2};
}

}  // namespace

ConfigOutcome ReadServerConfig(int argc, const char* const* argv) {
  ServerConfig config;
  std::deque<Flag> flags = ServerFlags(config);
  CLI::App app(
      "phitapd: reads and edits activations of Phi-3 family models, over gRPC.",
      "phitapd");
  app.footer(kExamples);
  app.set_version_flag("--version", VersionText(ThisBuild()));
  app.set_config("--config", "", "TOML file with the same flags");
  app.allow_config_extras(CLI::config_extras_mode::error);
  for (Flag& flag : flags) {
    CLI::Option* option = app.add_option(flag.name, flag.texts, flag.help)
                              ->type_name(flag.type)
                              ->expected(1);
    if (flag.texts.empty()) {
      option->take_all();
    } else {
      option->default_str(flag.texts[0])->take_last();
    }
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {
    std::ostringstream text;
    app.exit(asked, text, text);
    return {.text = text.str()};
  } catch (const CLI::ExtrasError&) {
    return Refuse(UnknownArgument(app.remaining().front(), flags));
  } catch (const CLI::ParseError& error) {
    return Refuse(absl::InvalidArgumentError(error.what()));
  }
  const absl::Status status = Apply(flags, config);
  if (!status.ok()) return Refuse(status);
  return {.config = std::move(config)};
}

bool ReachableFromElsewhere(const std::string& listen) {
  if (absl::StartsWith(listen, "unix:")) return false;
  const std::string host = listen.substr(0, listen.rfind(':'));
  return host != "localhost" && host != "[::1]" &&
         !absl::StartsWith(host, "127.");
}

}  // namespace phitap
