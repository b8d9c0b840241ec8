// Where the texts of flags go, and what reads them on the way.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_FLAG_TARGETS_H_
#define PHITAP_SERVER_FLAG_TARGETS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/base/status_macros.h"
#include "server/flag_values.h"

namespace phitap {

// Sets `target` to what `parse` makes of the text.
template <typename Target, typename Parse>
std::function<absl::Status(const FlagText&)> Into(Target& target, Parse parse) {
  return [&target, parse](const FlagText& given) -> absl::Status {
    ASSIGN_OR_RETURN(const auto value, parse(given));
    target = static_cast<Target>(value);
    return absl::OkStatus();
  };
}

inline auto IntIn(int64_t first, int64_t last) {
  return [=](const FlagText& given) {
    return ParseInt(given, {.first = first, .last = last});
  };
}

inline auto BytesUpTo(int64_t max_bytes) {
  return [=](const FlagText& given) { return ParseBytes(given, max_bytes); };
}

inline auto BytesOrAuto(int64_t max_bytes) {
  return
      [=](const FlagText& given) { return ParseBytesOrAuto(given, max_bytes); };
}

template <typename Value>
auto OneOf(std::vector<std::pair<absl::string_view, Value>> choices) {
  return [=](const FlagText& given) { return ParseChoice(given, choices); };
}

inline absl::StatusOr<std::string> ParseAnything(const FlagText& given) {
  return given.text;
}

}  // namespace phitap

#endif  // PHITAP_SERVER_FLAG_TARGETS_H_
