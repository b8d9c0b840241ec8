#include "client/cli/lens_table.h"

#include <gtest/gtest.h>

namespace phitap::cli {
namespace {

LensTable SmallTable() {
  return {
      .tokens = {"When", "·Mary", "·to"},
      .numbers = {"0", "1", "2"},
      .rows = {{.hook_point = "layers.0.layer_output",
                .guesses = {{"·the", 0.1}, {"·and", 0.5}, {"·it", 0.02}}},
               {.hook_point = "layers.1.layer_output",
                .guesses = {{"·Mary", 0.25}, {"·and", 1}, {"·Mary", 0.97}}}},
      .answer = {{"·Mary", 0.97}, {"·John", 0.0123}},
      .answer_after = "·to"};
}

TEST(LensTable, PutsTheLastLayerOnTopAndBarsBesideTheTokens) {
  EXPECT_EQ(Render(SmallTable(), {.width = 80}),
            "      0     1     2\n"
            "layer When  ·Mary ·to\n"
            "    1 ·Mary▂·and █·Mary█\n"
            "    0 ·the ▁·and ▄·it\n"
            "after ·to:  ·Mary 97.0%  ·John 1.2%\n");
}

TEST(LensTable, NamesRowsThatAreNotOnePlaceInEveryLayer) {
  LensTable table = SmallTable();
  table.rows[0].hook_point = "token_embeddings";
  EXPECT_EQ(Render(table, {.width = 80}),
            "                      0     1     2\n"
            "                      When  ·Mary ·to\n"
            "layers.1.layer_output ·Mary▂·and █·Mary█\n"
            "     token_embeddings ·the ▁·and ▄·it\n"
            "after ·to:  ·Mary 97.0%  ·John 1.2%\n");
}

TEST(LensTable, CutsTokensToTheTerminal) {
  LensTable table = SmallTable();
  table.rows[1].guesses[2].token = "·Constantinople";
  table.tokens[0] = "·incomprehensibilities";
  EXPECT_EQ(Render(table, {.width = 28}),
            "      0       1     2\n"
            "layer ·incom… ·Mary ·to\n"
            "    1 ·Mary  ▂·and █·Const…█\n"
            "    0 ·the   ▁·and ▄·it\n"
            "after ·to:  ·Mary 97.0%  ·John 1.2%\n");
}

TEST(LensTable, GivesRoomThatIsLeftToTheLastPositions) {
  LensTable table = SmallTable();
  table.rows[0].guesses[0].token = "·Bartholomew";
  table.rows[0].guesses[2].token = "·Constantinople";
  EXPECT_EQ(Render(table, {.width = 29}),
            "      0       1     2\n"
            "layer When    ·Mary ·to\n"
            "    1 ·Mary  ▂·and █·Mary   █\n"
            "    0 ·Barth…▁·and ▄·Consta…\n"
            "after ·to:  ·Mary 97.0%  ·John 1.2%\n");
}

TEST(LensTable, LeavesOutTheEarliestPositionsWhereNothingElseHelps) {
  EXPECT_EQ(Render(SmallTable(), {.width = 20}),
            "      1    2\n"
            "layer ·Ma… ·to\n"
            "    1 ·and█·Ma…█\n"
            "    0 ·and▄·it\n"
            "(1 earlier position does not fit: see --positions)\n"
            "after ·to:  ·Mary 97.0%  ·John 1.2%\n");
}

TEST(LensTable, UnderlinesTheAnswer) {
  const std::string text =
      Render(SmallTable(), {.colors = Colors::kTrue, .width = 80});
  const size_t top = text.find("\n    1 ");
  const size_t answer = text.find("\x1b[1;4;38;2;0;0;0;48;2;");
  ASSERT_NE(answer, std::string::npos);
  EXPECT_GT(answer, top);
  EXPECT_LT(answer, text.find("\n    0 "));
  EXPECT_EQ(text.find("\x1b[1;4;", answer + 1), std::string::npos);
}

}  // namespace
}  // namespace phitap::cli
