#include "client/cli/text_width.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace phitap::cli {
namespace {

struct CodeRange {
  uint32_t first;
  uint32_t last;
};

// Unicode 15: combining marks, joiners and variation selectors.
constexpr CodeRange kZeroWidth[] = {
    {0x0300, 0x036f},   {0x0483, 0x0489},  {0x0591, 0x05bd}, {0x0610, 0x061a},
    {0x064b, 0x065f},   {0x06d6, 0x06dc},  {0x0900, 0x0902}, {0x093c, 0x093c},
    {0x0941, 0x0948},   {0x094d, 0x094d},  {0x0e31, 0x0e31}, {0x0e34, 0x0e3a},
    {0x0e47, 0x0e4e},   {0x1ab0, 0x1aff},  {0x1dc0, 0x1dff}, {0x200b, 0x200f},
    {0x2028, 0x202e},   {0x2060, 0x2064},  {0x20d0, 0x20ff}, {0x302a, 0x302d},
    {0x3099, 0x309a},   {0xfe00, 0xfe0f},  {0xfe20, 0xfe2f}, {0xfeff, 0xfeff},
    {0xe0001, 0xe007f}, {0xe0100, 0xe01ef}};

// East Asian wide and fullwidth, and emoji that are shown as pictures.
constexpr CodeRange kWide[] = {
    {0x1100, 0x115f},   {0x231a, 0x231b},   {0x23e9, 0x23ec},
    {0x2614, 0x2615},   {0x2648, 0x2653},   {0x26aa, 0x26ab},
    {0x26bd, 0x26be},   {0x26c4, 0x26c5},   {0x26ce, 0x26ce},
    {0x26d4, 0x26d4},   {0x26ea, 0x26ea},   {0x26f2, 0x26f3},
    {0x26f5, 0x26f5},   {0x26fa, 0x26fa},   {0x26fd, 0x26fd},
    {0x2705, 0x2705},   {0x270a, 0x270b},   {0x2728, 0x2728},
    {0x274c, 0x274c},   {0x274e, 0x274e},   {0x2753, 0x2755},
    {0x2757, 0x2757},   {0x2795, 0x2797},   {0x27b0, 0x27b0},
    {0x2b1b, 0x2b1c},   {0x2b50, 0x2b50},   {0x2b55, 0x2b55},
    {0x2e80, 0x303e},   {0x3041, 0x33ff},   {0x3400, 0x4dbf},
    {0x4e00, 0xa4cf},   {0xa960, 0xa97f},   {0xac00, 0xd7a3},
    {0xf900, 0xfaff},   {0xfe30, 0xfe6f},   {0xff00, 0xff60},
    {0xffe0, 0xffe6},   {0x1f004, 0x1f004}, {0x1f0cf, 0x1f0cf},
    {0x1f18e, 0x1f18e}, {0x1f191, 0x1f19a}, {0x1f200, 0x1f265},
    {0x1f300, 0x1f64f}, {0x1f680, 0x1f6ff}, {0x1f7e0, 0x1f7eb},
    {0x1f90c, 0x1faff}, {0x20000, 0x3fffd}};

template <size_t n>
bool Contains(const CodeRange (&ranges)[n], uint32_t code) {
  const auto* after =
      std::upper_bound(std::begin(ranges), std::end(ranges), code,
                       [](uint32_t value, const CodeRange& range) {
                         return value < range.first;
                       });
  return after != std::begin(ranges) && code <= std::prev(after)->last;
}

int WidthOf(uint32_t code) {
  if (Contains(kZeroWidth, code)) return 0;
  return Contains(kWide, code) ? 2 : 1;
}

// One code point at the start of a text, or one invalid byte.
struct Character {
  uint32_t code = 0;
  size_t size_bytes = 1;
  bool valid = false;
};

int SequenceLength(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead < 0xe0) return 2;
  if (lead >= 0xe0 && lead < 0xf0) return 3;
  if (lead >= 0xf0 && lead < 0xf5) return 4;
  return 0;
}

bool IsOverlongOrSurrogate(uint32_t code, int length) {
  return (length == 3 && (code < 0x800 || (code >= 0xd800 && code < 0xe000))) ||
         (length == 4 && (code < 0x10000 || code > 0x10ffff));
}

Character FirstCharacter(absl::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const int length = SequenceLength(lead);
  if (length == 0 || static_cast<size_t>(length) > text.size()) return {};
  uint32_t code = length == 1 ? lead : lead & (0x7f >> length);
  for (int i = 1; i < length; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xc0) != 0x80) return {};
    code = code << 6 | (next & 0x3f);
  }
  if (IsOverlongOrSurrogate(code, length)) return {};
  return {
      .code = code, .size_bytes = static_cast<size_t>(length), .valid = true};
}

// The longest beginning of `text` that takes at most `width` columns.
absl::string_view BeginningOf(absl::string_view text, int width) {
  size_t end = 0;
  while (end < text.size()) {
    const Character character = FirstCharacter(text.substr(end));
    width -= character.valid ? WidthOf(character.code) : 1;
    if (width < 0) break;
    end += character.size_bytes;
  }
  return text.substr(0, end);
}

std::string ControlText(uint32_t code) {
  switch (code) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return absl::StrFormat("\\x%02x", code);
  }
}

}  // namespace

int DisplayWidth(absl::string_view text) {
  int width = 0;
  while (!text.empty()) {
    const Character character = FirstCharacter(text);
    width += character.valid ? WidthOf(character.code) : 1;
    text.remove_prefix(character.size_bytes);
  }
  return width;
}

std::string CutTo(absl::string_view text, int width) {
  if (DisplayWidth(text) <= width) return std::string(text);
  if (width <= 0) return "";
  return absl::StrCat(BeginningOf(text, width - 1), "…");
}

std::string FitTo(absl::string_view text, int width, Align align) {
  std::string cut = CutTo(text, width);
  const int missing = std::max(0, width - DisplayWidth(cut));
  const std::string fill(static_cast<size_t>(missing), ' ');
  return align == Align::kLeft ? cut + fill : fill + cut;
}

std::string TokenText(absl::string_view token) {
  std::string text;
  while (!token.empty()) {
    const Character character = FirstCharacter(token);
    const absl::string_view bytes = token.substr(0, character.size_bytes);
    if (!character.valid) {
      absl::StrAppend(&text, ControlText(static_cast<uint8_t>(bytes[0])));
    } else if (character.code < 0x20 ||
               (character.code >= 0x7f && character.code < 0xa0)) {
      absl::StrAppend(&text, ControlText(character.code));
    } else {
      absl::StrAppend(&text, character.code == ' ' ? "·" : bytes);
    }
    token.remove_prefix(character.size_bytes);
  }
  return text;
}

}  // namespace phitap::cli
