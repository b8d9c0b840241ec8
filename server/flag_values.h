// Values of flags: numbers, sizes, durations, choices.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_FLAG_VALUES_H_
#define PHITAP_SERVER_FLAG_VALUES_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/base/field_error.h"

namespace phitap {

// A flag as it was given, e.g. {"--threads", "4"}.
struct FlagText {
  std::string flag;
  std::string text;
};

// INVALID_ARGUMENT that names the flag, its text and what would be valid.
absl::Status InvalidFlag(const FlagText& given, const std::string& valid);

struct IntRange {
  int64_t first = 0;
  int64_t last = 0;
};
absl::StatusOr<int64_t> ParseInt(const FlagText& given, IntRange range);

// `64MiB`, `1.5 GiB`, `4096`: B, KiB, MiB, GiB or TiB; at least one byte, at
// most `max_bytes`.
absl::StatusOr<int64_t> ParseBytes(const FlagText& given, int64_t max_bytes);

// The same, or `auto`: 0.
absl::StatusOr<int64_t> ParseBytesOrAuto(const FlagText& given,
                                         int64_t max_bytes);

// `90s`, `10m`, `1h30m`: positive.
absl::StatusOr<absl::Duration> ParseDuration(const FlagText& given);
// The same, and 0s.
absl::StatusOr<absl::Duration> ParseDurationOrZero(const FlagText& given);

// One of a few names.
template <typename Value>
absl::StatusOr<Value> ParseChoice(
    const FlagText& given,
    const std::vector<std::pair<absl::string_view, Value>>& choices) {
  std::string valid;
  for (const auto& [name, value] : choices) {
    if (name == given.text) return value;
    absl::StrAppend(&valid, valid.empty() ? "" : ", ", name);
  }
  return InvalidFlag(given, valid);
}

}  // namespace phitap

#endif  // PHITAP_SERVER_FLAG_VALUES_H_
