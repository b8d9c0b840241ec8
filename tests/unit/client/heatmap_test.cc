#include "client/cli/heatmap.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace phitap::cli {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(RangeOf, LooksAtFiniteValuesOnly) {
  const ValueRange range = RangeOf({-kInfinity, 2, NAN, -1, kInfinity});
  EXPECT_EQ(range.low, -1);
  EXPECT_EQ(range.high, 2);
}

TEST(RenderStrip, ShowsEachValueAsABar) {
  EXPECT_EQ(RenderStrip({0, 1, 2, 4, 8}, {.low = 0, .high = 8}, 10), " ▁▂▄█");
}

TEST(RenderStrip, MergesNeighboursThatDoNotFit) {
  EXPECT_EQ(RenderStrip({0, 8, 1, 2, 0, 0}, {.low = 0, .high = 8}, 3), "█▂ ");
}

Heatmap Triangle() {
  return {.row_labels = {"When 0", "·Mary 1", "日 2"},
          .column_labels = {"When", "·Mary", "日"},
          .column_numbers = {0, 1, 2},
          .rows = {{1, 0, 0}, {0.25, 0.75, 0}, {0.004, 0.5, 0.496}},
          .range = {.low = 0, .high = 1},
          .is_share = true};
}

TEST(RenderHeatmap, WritesNumbersWhereThereIsRoom) {
  EXPECT_EQ(RenderHeatmap(Triangle(), {.width = 60}),
            "            When    ·Mary       日\n"
            " When 0     100█\n"
            "·Mary 1      25▂      75▆\n"
            "   日 2               50▄      50▄\n");
}

TEST(RenderHeatmap, ShadesNarrowCellsAndExplainsTheScale) {
  EXPECT_EQ(RenderHeatmap(Triangle(), {.width = 20}),
            "        0\n"
            " When 0 ██\n"
            "·Mary 1 ░░▓▓\n"
            "   日 2   ▒▒▒▒\n"
            "        0  ░░▒▒▓▓██ 1\n");
}

TEST(RenderHeatmap, MergesColumnsThatDoNotFit) {
  Heatmap heatmap = {.row_labels = {"a"}, .range = {.low = 0, .high = 1}};
  heatmap.rows.emplace_back();
  for (int i = 0; i < 100; ++i) {
    heatmap.column_labels.push_back("x");
    heatmap.column_numbers.push_back(i);
    heatmap.rows[0].push_back(i == 13 ? 1 : 0);
  }
  // 9 cells of 2 characters: 12 columns each, the sixth begins at 60.
  const std::string text = RenderHeatmap(heatmap, {.width = 20});
  EXPECT_EQ(text,
            "  0         60\n"
            "a   ██\n"
            "  0  ░░▒▒▓▓██ 1\n");
}

TEST(RenderHeatmap, LeavesOutWhatIsNotFinite) {
  const Heatmap heatmap = {.row_labels = {"a"},
                           .column_labels = {"x", "y"},
                           .column_numbers = {0, 1},
                           .rows = {{-kInfinity, 2.5}},
                           .range = {.low = 2.5, .high = 2.5}};
  EXPECT_EQ(RenderHeatmap(heatmap, {.width = 60}),
            "         x        y\n"
            "a              2.5\n");
}

TEST(RenderHeatmap, ColoursWholeCells) {
  const Heatmap heatmap = {.row_labels = {"a"},
                           .column_labels = {"x"},
                           .column_numbers = {0},
                           .rows = {{1}},
                           .range = {.low = 0, .high = 1},
                           .is_share = true};
  EXPECT_EQ(RenderHeatmap(heatmap, {.colors = Colors::kTrue}),
            "\x1b[1m         x\x1b[0m\n"
            "a \x1b[38;2;0;0;0;48;2;253;231;37m     100 \x1b[0m\n");
}

}  // namespace
}  // namespace phitap::cli
