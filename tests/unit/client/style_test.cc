#include "client/cli/style.h"

#include <gtest/gtest.h>

#include <cmath>

namespace phitap::cli {
namespace {

TEST(Painted, LeavesTextAloneWithoutColour) {
  EXPECT_EQ(
      Painted("x", {.bold = true, .background = Rgb{1, 2, 3}}, Colors::kNone),
      "x");
}

TEST(Painted, WritesTrueColour) {
  EXPECT_EQ(
      Painted("x", {.bold = true, .background = Rgb{1, 2, 3}}, Colors::kTrue),
      "\x1b[1;48;2;1;2;3mx\x1b[0m");
}

TEST(Painted, FallsBackToTheNearestOf256Colours) {
  EXPECT_EQ(Painted("x", {.foreground = Rgb{255, 0, 0}}, Colors::k256),
            "\x1b[38;5;196mx\x1b[0m");
  EXPECT_EQ(Painted("x", {.foreground = Rgb{0, 95, 135}}, Colors::k256),
            "\x1b[38;5;24mx\x1b[0m");
}

TEST(RampColor, GoesFromDarkToLight) {
  const auto light = [](const Rgb& color) {
    return 2 * color.red + 7 * color.green + color.blue;
  };
  for (int i = 1; i <= 20; ++i) {
    EXPECT_GT(light(RampColor(i / 20.0)), light(RampColor((i - 1) / 20.0)));
  }
  EXPECT_EQ(RampColor(-1), RampColor(0));
  EXPECT_EQ(RampColor(2), RampColor(1));
  EXPECT_EQ(RampColor(NAN), (Rgb{128, 128, 128}));
}

TEST(RampStyle, PutsDarkTextOnLightColours) {
  EXPECT_EQ(*RampStyle(0).foreground, (Rgb{255, 255, 255}));
  EXPECT_EQ(*RampStyle(1).foreground, (Rgb{0, 0, 0}));
}

TEST(BarOf, GrowsWithTheShare) {
  EXPECT_EQ(BarOf(0), " ");
  EXPECT_EQ(BarOf(0.5), "▄");
  EXPECT_EQ(BarOf(1), "█");
  EXPECT_EQ(BarOf(NAN), "?");
}

}  // namespace
}  // namespace phitap::cli
