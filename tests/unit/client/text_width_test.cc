#include "client/cli/text_width.h"

#include <gtest/gtest.h>

namespace phitap::cli {
namespace {

TEST(DisplayWidth, CountsColumnsNotBytes) {
  EXPECT_EQ(DisplayWidth("abc"), 3);
  EXPECT_EQ(DisplayWidth("naïve"), 5);
  EXPECT_EQ(DisplayWidth("日本"), 4);
  EXPECT_EQ(DisplayWidth("e\u0301"), 1);  // e and a combining acute
  EXPECT_EQ(DisplayWidth("🙂"), 2);
  EXPECT_EQ(DisplayWidth("\xff\xc3"), 2);  // no UTF-8
  EXPECT_EQ(DisplayWidth(""), 0);
}

TEST(CutTo, EndsInAnEllipsisWhereTextIsLost) {
  EXPECT_EQ(CutTo("abcdef", 6), "abcdef");
  EXPECT_EQ(CutTo("abcdef", 4), "abc…");
  EXPECT_EQ(CutTo("日本語", 4), "日…");  // half a character cannot be shown
  EXPECT_EQ(CutTo("abc", 0), "");
}

TEST(FitTo, FillsUpToTheWidth) {
  EXPECT_EQ(FitTo("日", 4, Align::kLeft), "日  ");
  EXPECT_EQ(FitTo("42", 4, Align::kRight), "  42");
  EXPECT_EQ(FitTo("日本語", 4, Align::kLeft), "日… ");
}

TEST(TokenText, ShowsWhatCannotBeSeen) {
  EXPECT_EQ(TokenText(" Mary"), "·Mary");
  EXPECT_EQ(TokenText("a\n\t\r"), "a\\n\\t\\r");
  EXPECT_EQ(TokenText(std::string("\x1b[31m\0", 6)), "\\x1b[31m\\x00");
  EXPECT_EQ(TokenText("\xe6\x97"), "\\xe6\\x97");  // half of 日
  EXPECT_EQ(TokenText("日"), "日");
  EXPECT_EQ(TokenText("\xc2\x9b"), "\\x9b");  // a control character
  EXPECT_EQ(TokenText("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // a surrogate
}

}  // namespace
}  // namespace phitap::cli
