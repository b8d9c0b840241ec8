#include "server/observe_flags.h"

#include <string>

#include "absl/strings/match.h"
#include "server/base/status_macros.h"

namespace phitap {
namespace {

absl::Status ReadLogLevel(const FlagText& given, LogLevel& level) {
  ASSIGN_OR_RETURN(
      level, ParseChoice<LogLevel>(given, {{"debug", LogLevel::kDebug},
                                           {"info", LogLevel::kInfo},
                                           {"warning", LogLevel::kWarning},
                                           {"error", LogLevel::kError}}));
  return absl::OkStatus();
}

absl::Status ReadLogFormat(const FlagText& given, LogFormat& format) {
  ASSIGN_OR_RETURN(format,
                   ParseChoice<LogFormat>(given, {{"text", LogFormat::kText},
                                                  {"json", LogFormat::kJson}}));
  return absl::OkStatus();
}

absl::Status ReadPromptLogging(const FlagText& given, PromptLogging& logging) {
  ASSIGN_OR_RETURN(logging, ParseChoice<PromptLogging>(
                                given, {{"on", PromptLogging::kOn},
                                        {"off", PromptLogging::kOff}}));
  return absl::OkStatus();
}

absl::Status ReadMetricsListen(const FlagText& given, std::string& listen) {
  if (given.text == "off") {
    listen.clear();
    return absl::OkStatus();
  }
  const size_t colon = given.text.rfind(':');
  if (absl::StartsWith(given.text, "unix:") || colon == std::string::npos ||
      colon == 0 ||
      !ParseInt({given.flag, given.text.substr(colon + 1)},
                {.first = 0, .last = 65535})
           .ok()) {
    return InvalidFlag(given,
                       "HOST:PORT with port 0 (a free one) to 65535, or off");
  }
  listen = given.text;
  return absl::OkStatus();
}

}  // namespace

void AddObserveFlags(ServerConfig& config, std::deque<Flag>& flags) {
  flags.push_back({"--log-level",
                   "debug|info|warning|error",
                   "Least level that is logged",
                   {"info"},
                   [&config](const FlagText& given) {
                     return ReadLogLevel(given, config.log.level);
                   }});
  flags.push_back({"--log-format",
                   "text|json",
                   "Form of log lines",
                   {"text"},
                   [&config](const FlagText& given) {
                     return ReadLogFormat(given, config.log.format);
                   }});
  flags.push_back({"--log-prompts",
                   "on|off",
                   "Whether the prompts and labels of traces are logged, at "
                   "most 4 KiB of each; tell those who send them",
                   {"off"},
                   [&config](const FlagText& given) {
                     return ReadPromptLogging(given, config.prompt_logging);
                   }});
  flags.push_back({"--metrics-listen",
                   "HOST:PORT|off",
                   "Where GET /metrics answers Prometheus, in plain HTTP; port "
                   "0 takes a free one",
                   {"off"},
                   [&config](const FlagText& given) {
                     return ReadMetricsListen(given, config.metrics_listen);
                   }});
}

}  // namespace phitap
