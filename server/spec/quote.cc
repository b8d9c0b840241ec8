#include "server/spec/quote.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace phitap {
namespace {

constexpr size_t kQuotedBytes = 64;

bool IsContinuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

}  // namespace

absl::string_view Shortened(absl::string_view text, size_t size_bytes) {
  if (text.size() <= size_bytes) return text;
  while (size_bytes > 0 && IsContinuation(text[size_bytes])) --size_bytes;
  return text.substr(0, size_bytes);
}

std::string Quoted(absl::string_view text) {
  const absl::string_view shown = Shortened(text, kQuotedBytes);
  return absl::StrCat("\"", absl::Utf8SafeCEscape(shown),
                      shown.size() < text.size() ? "…\"" : "\"");
}

}  // namespace phitap
