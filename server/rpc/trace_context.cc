#include "server/rpc/trace_context.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace phitap {
namespace {

bool IsHex(absl::string_view text, size_t length) {
  return text.size() == length &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

bool IsId(absl::string_view text, size_t length) {
  return IsHex(text, length) &&
         text.find_first_not_of('0') != absl::string_view::npos;
}

}  // namespace

std::optional<TraceContext> ParseTraceparent(absl::string_view value) {
  const std::vector<absl::string_view> parts = absl::StrSplit(value, '-');
  if (parts.size() < 4 || !IsHex(parts[0], 2) || parts[0] == "ff" ||
      !IsId(parts[1], 32) || !IsId(parts[2], 16) || !IsHex(parts[3], 2)) {
    return std::nullopt;
  }
  if (parts[0] == "00" && parts.size() != 4) return std::nullopt;
  return TraceContext{.trace_id = std::string(parts[1]),
                      .flags = std::string(parts[3])};
}

std::string TraceResponse(const TraceContext& context,
                          absl::string_view span_id) {
  return absl::StrCat("00-", context.trace_id, "-", span_id, "-",
                      context.flags);
}

}  // namespace phitap
