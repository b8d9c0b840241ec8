#include "server/base/retry_hint.h"

#include <cstdint>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace phitap {
namespace {

constexpr char kHintPayload[] = "phitap/retry-after-ms";

}  // namespace

absl::Status WithRetryHint(absl::Status status, absl::Duration delay) {
  if (!absl::IsUnavailable(status)) return status;
  const auto milliseconds =
      absl::ToInt64Milliseconds(absl::Ceil(delay, absl::Milliseconds(1)));
  absl::Status hinted = absl::UnavailableError(
      absl::StrCat(std::string(status.message()), "; try again in ",
                   absl::FormatDuration(absl::Milliseconds(milliseconds))));
  status.ForEachPayload([&](absl::string_view type, const absl::Cord& payload) {
    hinted.SetPayload(type, payload);
  });
  hinted.SetPayload(kHintPayload, absl::Cord(absl::StrCat(milliseconds)));
  return hinted;
}

std::optional<absl::Duration> RetryHintOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kHintPayload);
  int64_t milliseconds = 0;
  if (!payload.has_value() ||
      !absl::SimpleAtoi(std::string(*payload), &milliseconds)) {
    return std::nullopt;
  }
  return absl::Milliseconds(milliseconds);
}

}  // namespace phitap
