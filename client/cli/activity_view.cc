#include "client/cli/activity_view.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/growing_columns.h"
#include "client/cli/number_text.h"
#include "client/cli/table.h"
#include "client/cli/text_width.h"

namespace phitap::cli {
namespace {

constexpr Rgb kGreen = {34, 168, 132};
constexpr Rgb kYellow = {222, 184, 65};
constexpr Rgb kRed = {222, 92, 77};
constexpr Rgb kBlue = {86, 140, 200};
constexpr double kFullish = 0.7;
constexpr double kFull = 0.9;

constexpr int kNameWidth = 12;
constexpr int kMostSpark = 60;
constexpr int kMostMeter = 40;
// Besides spark and meter.
constexpr int kLoadText = 56;
constexpr int kMemoryText = 40;
constexpr int kPercent = 100;

absl::Duration ToAbsl(const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) +
         absl::Nanoseconds(duration.nanos());
}

absl::Time ToAbsl(const google::protobuf::Timestamp& time) {
  return absl::FromUnixSeconds(time.seconds()) +
         absl::Nanoseconds(time.nanos());
}

std::string PerSecond(double rate) {
  if (rate > 0 && rate < 10) return absl::StrFormat("%.2g/s", rate);
  return absl::StrCat(CountText(std::llround(rate)), "/s");
}

// A line of the picture: a name, a figure, how it went, and what else is to
// say.
struct LoadLine {
  absl::string_view name;
  std::string figure;
  std::deque<double> past;
  std::string note;
};

std::string Render(const LoadLine& line, const Terminal& terminal) {
  constexpr int kFigureWidth = 12;
  const int spark_width = std::clamp(terminal.width - kLoadText, 8, kMostSpark);
  return absl::StrCat(FitTo(line.name, kNameWidth, Align::kLeft),
                      Painted(FitTo(line.figure, kFigureWidth, Align::kRight),
                              {.bold = true}, terminal.colors),
                      "  ",
                      Painted(FitTo(SparkText(line.past, spark_width),
                                    spark_width, Align::kRight),
                              {.foreground = kBlue}, terminal.colors),
                      "  ",
                      CutTo(line.note, terminal.width - kNameWidth -
                                           kFigureWidth - 4 - spark_width),
                      "\n");
}

std::deque<double> Past(const ActivityHistory& history,
                        double ActivityRates::*rate) {
  std::deque<double> past;
  for (const ActivityRates& rates : history.past_rates()) {
    past.push_back(rates.*rate);
  }
  return past;
}

std::string RenderLoad(const ActivityHistory& history,
                       const Terminal& terminal) {
  const v1::WatchActivityResponse& now = history.now();
  const ActivityRates& rates = history.rates();
  const std::vector<LoadLine> lines = {
      {.name = "waiting",
       .figure = absl::StrCat(now.queued_requests()),
       .past = history.past_queued(),
       .note = absl::StrCat(now.waves(), now.waves() == 1 ? " wave" : " waves",
                            ", ", CountText(now.wave_tokens()), " tokens")},
      {.name = "answered",
       .figure = PerSecond(rates.finished),
       .past = Past(history, &ActivityRates::finished),
       .note = absl::StrCat("failed ", now.failed_requests(), ", refused ",
                            now.refused_requests())},
      {.name = "computed",
       .figure = PerSecond(rates.token_layers),
       .past = Past(history, &ActivityRates::token_layers),
       .note = rates.saved_share.has_value()
                   ? absl::StrFormat("token-layers, %.0f%% saved",
                                     kPercent * *rates.saved_share)
                   : "token-layers"},
      {.name = "sent",
       .figure = RateText(rates.sent_bytes),
       .past = Past(history, &ActivityRates::sent_bytes),
       .note = absl::StrCat(BytesText(now.sent_bytes()), " in all")}};
  std::string text;
  for (const LoadLine& line : lines) text += Render(line, terminal);
  return text;
}

Rgb ColorOfShare(double share) {
  if (share >= kFull) return kRed;
  return share >= kFullish ? kYellow : kGreen;
}

std::string RenderMemory(const v1::WatchActivityResponse& now,
                         const Terminal& terminal) {
  const int width = std::clamp(terminal.width - kMemoryText, 8, kMostMeter);
  std::string text;
  for (const v1::MemoryUse& use : now.memory()) {
    const std::string used = BytesText(use.used_bytes());
    absl::StrAppend(&text, FitTo(use.kind(), kNameWidth, Align::kLeft));
    if (use.limit_bytes() == 0) {
      absl::StrAppend(&text, FitTo("", width + 2, Align::kLeft),
                      FitTo(used, 8, Align::kRight), "\n");
      continue;
    }
    const double share = static_cast<double>(use.used_bytes()) /
                         static_cast<double>(use.limit_bytes());
    absl::StrAppend(
        &text,
        Painted(MeterText(share, width), {.foreground = ColorOfShare(share)},
                terminal.colors),
        "  ", FitTo(used, 8, Align::kRight), " of ",
        FitTo(BytesText(use.limit_bytes()), 8, Align::kLeft),
        absl::StrFormat("%4.0f%%\n", kPercent * share));
  }
  return text;
}

struct StatusWord {
  absl::string_view word;
  Style style;
};

StatusWord WordOf(v1::ModelStatus status) {
  switch (status) {
    case v1::MODEL_STATUS_AVAILABLE:
      return {.word = "available", .style = {.dim = true}};
    case v1::MODEL_STATUS_LOADING:
      return {.word = "loading", .style = {.foreground = kYellow}};
    case v1::MODEL_STATUS_READY:
      return {.word = "ready", .style = {.foreground = kGreen}};
    case v1::MODEL_STATUS_UNLOADING:
      return {.word = "unloading", .style = {.foreground = kYellow}};
    case v1::MODEL_STATUS_FAILED:
      return {.word = "failed", .style = {.bold = true, .foreground = kRed}};
    default:
      return {.word = "?"};
  }
}

// What is to say of a model that is not simply ready.
std::string RemarkOn(const v1::ModelState& model) {
  if (!model.failure().empty()) return PrintableText(model.failure());
  if (model.stage().empty()) return "";
  return absl::StrFormat("%s %.0f%%", model.stage(),
                         kPercent * model.progress());
}

std::string RenderModels(const v1::WatchActivityResponse& now,
                         const Terminal& terminal) {
  Table table = {.columns = {{.title = "model", .may_shrink = true},
                             {.title = "status"},
                             {.title = "weights", .align = Align::kRight},
                             {.title = "requests", .align = Align::kRight},
                             {.title = "since", .align = Align::kRight},
                             {.title = "", .may_shrink = true}}};
  for (const v1::ModelState& model : now.models()) {
    const StatusWord status = WordOf(model.status());
    table.rows.push_back(
        {{.text = PrintableText(model.name())},
         {.text = std::string(status.word), .style = status.style},
         {.text =
              model.weight_bytes() == 0 ? "" : BytesText(model.weight_bytes())},
         {.text = absl::StrCat(model.requests())},
         {.text = model.has_status_time() ? AgeText(ToAbsl(now.time()) -
                                                    ToAbsl(model.status_time()))
                                          : ""},
         {.text = RemarkOn(model)}});
  }
  return Render(table, terminal);
}

std::string RenderCallers(const v1::WatchActivityResponse& now,
                          const Terminal& terminal) {
  if (now.callers().empty()) {
    return Painted("nobody has anything here\n", {.dim = true},
                   terminal.colors);
  }
  Table table = {
      .columns = {{.title = "caller", .may_shrink = true},
                  {.title = "waiting", .align = Align::kRight},
                  {.title = "running", .align = Align::kRight},
                  {.title = "undelivered", .align = Align::kRight},
                  {.title = "tokens so far", .align = Align::kRight}}};
  for (const v1::CallerActivity& caller : now.callers()) {
    table.AddRow(
        {PrintableText(caller.caller()), absl::StrCat(caller.queued_requests()),
         absl::StrCat(caller.running_requests()),
         BytesText(caller.undelivered_bytes()), CountText(caller.tokens())});
  }
  return Render(table, terminal);
}

}  // namespace

std::string RenderActivity(const ActivityHistory& history,
                           absl::string_view server, const Terminal& terminal) {
  const v1::WatchActivityResponse& now = history.now();
  const std::string title =
      CutTo(absl::StrCat("phitap ", now.version(), " at ", server, ", up ",
                         AgeText(ToAbsl(now.uptime())), ", ",
                         absl::FormatTime("%H:%M:%S UTC", ToAbsl(now.time()),
                                          absl::UTCTimeZone())),
            terminal.width);
  return absl::StrCat(
      Painted(title, {.bold = true}, terminal.colors), "\n\n",
      RenderLoad(history, terminal), "\n", RenderMemory(now, terminal), "\n",
      RenderModels(now, terminal), "\n", RenderCallers(now, terminal));
}

std::string ActivityLine(const ActivityHistory& history) {
  const v1::WatchActivityResponse& now = history.now();
  const ActivityRates& rates = history.rates();
  int64_t resident_bytes = 0;
  for (const v1::MemoryUse& use : now.memory()) {
    if (use.kind() == "resident") resident_bytes = use.used_bytes();
  }
  return absl::StrCat(
      absl::FormatTime("%H:%M:%S", ToAbsl(now.time()), absl::UTCTimeZone()),
      "  waiting ", now.queued_requests(), "  waves ", now.waves(),
      "  answered ", PerSecond(rates.finished), "  failed ",
      now.failed_requests(), "  refused ", now.refused_requests(),
      "  token-layers ", PerSecond(rates.token_layers), "  sent ",
      RateText(rates.sent_bytes), "  resident ", BytesText(resident_bytes),
      "\n");
}

std::string MeterText(double share, int width) {
  static constexpr std::array<const char*, 8> kEighths = {"",  "▏", "▎", "▍",
                                                          "▌", "▋", "▊", "▉"};
  const auto filled =
      static_cast<int>(std::lround(std::clamp(share, 0.0, 1.0) * 8 * width));
  std::string text;
  for (int i = 0; i < filled / 8; ++i) text += "█";
  text += kEighths[filled % 8];
  for (int i = (filled + 7) / 8; i < width; ++i) text += "·";
  return text;
}

std::string SparkText(const std::deque<double>& values, int width) {
  const size_t count = std::min(values.size(), static_cast<size_t>(width));
  const auto first = values.end() - static_cast<std::ptrdiff_t>(count);
  const double largest =
      count == 0 ? 0 : *std::max_element(first, values.end());
  std::string text;
  for (auto value = first; value != values.end(); ++value) {
    absl::StrAppend(&text, BarOf(largest > 0 ? *value / largest : 0));
  }
  return text;
}

std::string AgeText(absl::Duration age) {
  const int64_t seconds = std::max<int64_t>(absl::ToInt64Seconds(age), 0);
  const int64_t minutes = seconds / 60;
  const int64_t hours = minutes / 60;
  if (hours >= 48) return absl::StrCat(hours / 24, " d ", hours % 24, " h");
  if (hours > 0) return absl::StrCat(hours, " h ", minutes % 60, " min");
  if (minutes > 0) return absl::StrCat(minutes, " min");
  return absl::StrCat(seconds, " s");
}

}  // namespace phitap::cli
