#include "server/spec/quote.h"

#include <gtest/gtest.h>

namespace phitap {
namespace {

TEST(Quoted, KeepsPrintableText) {
  EXPECT_EQ(Quoted("layers.5"), "\"layers.5\"");
  EXPECT_EQ(Quoted("été"), "\"été\"");
}

TEST(Quoted, EscapesControlCharactersAndQuotes) {
  EXPECT_EQ(Quoted("a\n\"b"), "\"a\\n\\\"b\"");
}

TEST(Quoted, CutsLongTextBetweenCharacters) {
  const std::string text = std::string(63, 'x') + "é" + "tail";
  EXPECT_EQ(Quoted(text), "\"" + std::string(63, 'x') + "…\"");
}

TEST(Shortened, KeepsTextThatFits) {
  EXPECT_EQ(Shortened("été", 5), "été");
  EXPECT_EQ(Shortened("été", 4), "ét");
  EXPECT_EQ(Shortened("été", 0), "");
}

}  // namespace
}  // namespace phitap
