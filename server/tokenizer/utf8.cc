#include "server/tokenizer/utf8.h"

#include <cstdint>

namespace phitap {
namespace {

struct Sequence {
  size_t length = 0;  // 0: no sequence starts with this byte.
  // Range of the second byte; the others are always 0x80 to 0xBF.
  uint8_t second_min = 0x80;
  uint8_t second_max = 0xBF;
};

Sequence SequenceOf(uint8_t lead) {
  if (lead < 0x80) return {.length = 1};
  if (lead < 0xC2) return {};
  if (lead < 0xE0) return {.length = 2};
  if (lead == 0xE0) return {.length = 3, .second_min = 0xA0};
  if (lead == 0xED) return {.length = 3, .second_max = 0x9F};
  if (lead < 0xF0) return {.length = 3};
  if (lead == 0xF0) return {.length = 4, .second_min = 0x90};
  if (lead < 0xF4) return {.length = 4};
  if (lead == 0xF4) return {.length = 4, .second_max = 0x8F};
  return {};
}

}  // namespace

std::optional<size_t> FirstInvalidUtf8(absl::string_view text) {
  for (size_t start = 0; start < text.size();) {
    const Sequence sequence = SequenceOf(static_cast<uint8_t>(text[start]));
    if (sequence.length == 0 || start + sequence.length > text.size()) {
      return start;
    }
    for (size_t i = 1; i < sequence.length; ++i) {
      const uint8_t byte = static_cast<uint8_t>(text[start + i]);
      const uint8_t min = i == 1 ? sequence.second_min : uint8_t{0x80};
      const uint8_t max = i == 1 ? sequence.second_max : uint8_t{0xBF};
      if (byte < min || byte > max) return start;
    }
    start += sequence.length;
  }
  return std::nullopt;
}

}  // namespace phitap
