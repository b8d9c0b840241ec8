#include "server/flag_values.h"

#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"

namespace phitap {

absl::Status InvalidFlag(const FlagText& given, const std::string& valid) {
  return InvalidField({.field = given.flag,
                       .problem = absl::StrCat("\"", given.text, "\""),
                       .valid = valid});
}

absl::StatusOr<int64_t> ParseInt(const FlagText& given, IntRange range) {
  int64_t value = 0;
  if (absl::SimpleAtoi(given.text, &value) && value >= range.first &&
      value <= range.last) {
    return value;
  }
  return InvalidFlag(given, absl::StrCat(range.first, " to ", range.last));
}

absl::StatusOr<int64_t> ParseBytes(const FlagText& given, int64_t max_bytes) {
  const std::vector<std::pair<absl::string_view, double>> units = {
      {"", 1},         {"b", 1},        {"kib", 0x1p10},
      {"mib", 0x1p20}, {"gib", 0x1p30}, {"tib", 0x1p40}};
  const size_t digits = given.text.find_first_not_of("0123456789.");
  const std::string number = given.text.substr(0, digits);
  const std::string unit =
      digits == std::string::npos
          ? ""
          : absl::AsciiStrToLower(
                absl::StripAsciiWhitespace(given.text.substr(digits)));
  double count = 0;
  for (const auto& [name, bytes] : units) {
    if (name != unit || !absl::SimpleAtod(number, &count)) continue;
    const double total = std::floor(count * bytes);
    if (total >= 1 && total <= static_cast<double>(max_bytes)) {
      return static_cast<int64_t>(total);
    }
  }
  return InvalidFlag(given,
                     absl::StrCat("1 to ", max_bytes,
                                  " bytes, e.g. 64MiB (B, KiB, MiB, GiB, "
                                  "TiB)"));
}

absl::StatusOr<int64_t> ParseBytesOrAuto(const FlagText& given,
                                         int64_t max_bytes) {
  if (given.text == "auto") return 0;
  return ParseBytes(given, max_bytes);
}

absl::StatusOr<absl::Duration> ParseDuration(const FlagText& given) {
  absl::Duration duration;
  if (absl::ParseDuration(given.text, &duration) &&
      duration > absl::ZeroDuration() && duration < absl::InfiniteDuration()) {
    return duration;
  }
  return InvalidFlag(given, "a positive duration, e.g. 90s, 10m, 1h30m");
}

absl::StatusOr<absl::Duration> ParseDurationOrZero(const FlagText& given) {
  absl::Duration duration;
  if (absl::ParseDuration(given.text, &duration) &&
      duration == absl::ZeroDuration()) {
    return duration;
  }
  return ParseDuration(given);
}

}  // namespace phitap
