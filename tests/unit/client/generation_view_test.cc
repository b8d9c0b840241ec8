#include "client/cli/generation_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace phitap::cli {
namespace {

using testing::HasSubstr;

TEST(PrintableText, KeepsTheCursorWhereItIs) {
  EXPECT_EQ(PrintableText("a\x1b[2Jb\tc\r\né"), "a\\x1b[2Jb    c\\r\né");
}

// What a terminal shows of text with newlines, returns and wiped lines.
std::string Shown(const std::string& written) {
  std::string shown;
  for (size_t i = 0; i < written.size(); ++i) {
    if (written.compare(i, 4, "\r\x1b[K") == 0) {
      shown.resize(
          shown.rfind('\n') == std::string::npos ? 0 : shown.rfind('\n') + 1);
      i += 3;
    } else {
      shown.push_back(written[i]);
    }
  }
  return shown;
}

TEST(GrowingColumns, WrapsAtWordsAndNeverRewritesAFinishedRow) {
  GrowingColumns columns(2, 23);
  ASSERT_EQ(columns.column_width(), 10);
  std::string written = columns.Append(0, "one two three");
  // The second text is still in its first row.
  EXPECT_EQ(Shown(written), "one two    │");
  written += columns.Append(1, "uno");
  EXPECT_EQ(Shown(written), "one two    │ uno");
  written += columns.Append(1, " dos\ntres");
  EXPECT_EQ(Shown(written), "one two    │ uno dos\nthree      │ tres");
  written += columns.Append(0, " fourfivesixseven");
  written += columns.Finish();
  EXPECT_EQ(Shown(written),
            "one two    │ uno dos\n"
            "three      │ tres\n"
            "fourfivesi │\n"
            "xseven     │\n");
}

v1::GeneratedToken Token(const std::string& run, const std::string& text) {
  v1::GeneratedToken token;
  token.set_run(run);
  token.set_text(text);
  return token;
}

// What a view writes for two runs' tokens.
std::string Viewed(std::vector<std::string> runs, const Terminal& terminal) {
  std::string written;
  GenerationView view(std::move(runs), terminal,
                      [&written](absl::string_view text) {
                        written.append(text.data(), text.size());
                      });
  view.Add(Token("plain", " a"));
  view.Add(Token("steered", " b"));
  view.Add(Token("plain", " c"));
  view.Finish();
  return written;
}

TEST(GenerationView, StreamsOneRunAsItIs) {
  EXPECT_EQ(Viewed({"plain"}, Terminal()), " a c\n");
}

TEST(GenerationView, GivesAPipeOneRunAfterTheOther) {
  EXPECT_EQ(Viewed({"plain", "steered"}, Terminal()),
            "plain:\n a c\n\nsteered:\n b\n");
}

TEST(GenerationView, PutsRunsSideBySideInAWideTerminal) {
  const std::string shown =
      Shown(Viewed({"plain", "steered"}, {.width = 80, .interactive = true}));
  EXPECT_THAT(shown, HasSubstr("\n a c" + std::string(34, ' ') + " │  b\n"));
}

TEST(GenerationView, PutsThemUnderEachOtherInANarrowOne) {
  EXPECT_EQ(Viewed({"plain", "steered"}, {.width = 40, .interactive = true}),
            "plain:\n a c\n\nsteered:\n b\n");
}

}  // namespace
}  // namespace phitap::cli
