#include "server/observe/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace phitap {
namespace {

using Json = nlohmann::ordered_json;

std::atomic<LogFormat> log_format = LogFormat::kText;

absl::string_view NameOf(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
  }
  return "error";
}

spdlog::level::level_enum SpdlogLevel(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

Json ToJson(const LogField& field) {
  return std::visit([](const auto& value) { return Json(value); }, field.value);
}

// Bytes that are no UTF-8 become U+FFFD.
std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string TextOf(const LogField& field) {
  const auto* text = std::get_if<std::string>(&field.value);
  const bool plain = text != nullptr &&
                     text->find_first_of(" \"\\=\n\r\t") == std::string::npos;
  return plain ? *text : Dump(ToJson(field));
}

spdlog::logger& Logger() {
  static const std::shared_ptr<spdlog::logger> logger = [] {
    auto made = std::make_shared<spdlog::logger>(
        "phitap", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%v");
    made->flush_on(spdlog::level::debug);
    return made;
  }();
  return *logger;
}

}  // namespace

void SetUpLog(const LogOptions& options) {
  log_format = options.format;
  Logger().set_level(SpdlogLevel(options.level));
}

void SetLogLevel(LogLevel level) { Logger().set_level(SpdlogLevel(level)); }

void Log(LogLevel level, absl::string_view message,
         std::initializer_list<LogField> fields) {
  if (!Logger().should_log(SpdlogLevel(level))) return;
  Logger().log(
      SpdlogLevel(level),
      Format({.time = absl::Now(),
              .level = level,
              .message = message,
              .fields = absl::MakeConstSpan(fields.begin(), fields.size())},
             log_format));
}

std::string Format(const LogLine& line, LogFormat format) {
  const std::string time =
      absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", line.time, absl::UTCTimeZone());
  if (format == LogFormat::kJson) {
    Json json = {{"time", time},
                 {"level", std::string(NameOf(line.level))},
                 {"message", std::string(line.message)}};
    for (const LogField& field : line.fields) {
      json[std::string(field.name)] = ToJson(field);
    }
    return Dump(json);
  }
  std::string text =
      absl::StrCat(time, " ", NameOf(line.level), " ", line.message);
  for (const LogField& field : line.fields) {
    if (field.value == LogField{.value = ""}.value) continue;
    absl::StrAppend(&text, " ", field.name, "=", TextOf(field));
  }
  return text;
}

}  // namespace phitap
