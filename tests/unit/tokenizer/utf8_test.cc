// SPDX-License-Identifier: Apache-2.0
#include "server/tokenizer/utf8.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace phitap {
namespace {

TEST(Utf8, AcceptsTheFirstAndLastCharacterOfEachLength) {
  for (const absl::string_view text :
       {absl::string_view("\x00\x7F", 2), absl::string_view("\u0080\u07FF"),
        absl::string_view("\u0800\uD7FF\uE000\uFFFF"),
        absl::string_view("\U00010000\U0010FFFF"), absl::string_view()}) {
    EXPECT_EQ(FirstInvalidUtf8(text), std::nullopt) << text;
  }
}

TEST(Utf8, FindsWhatIsNotACharacter) {
  for (const absl::string_view bad : {
           "\x80",              // A continuation on its own.
           "\xC1\xBF",          // Overlong, 2 bytes.
           "\xE0\x9F\xBF",      // Overlong, 3 bytes.
           "\xF0\x8F\xBF\xBF",  // Overlong, 4 bytes.
           "\xED\xA0\x80",      // A surrogate.
           "\xF4\x90\x80\x80",  // Past the last character.
           "\xF5\x80\x80\x80", "\xFF",
           "\xC3",  // The end in the middle of a character,
           "\xE2\x82", "\xF0\x9F\x98", "\xC3(",
           "\xE2\x82(",  // or something else there.
       }) {
    EXPECT_EQ(FirstInvalidUtf8(bad), 0u) << bad;
    EXPECT_EQ(FirstInvalidUtf8("é" + std::string(bad)), 2u) << bad;
  }
}

}  // namespace
}  // namespace phitap
