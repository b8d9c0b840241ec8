#include "client/cli/live_screen.h"

#include <gtest/gtest.h>

namespace phitap::cli {
namespace {

TEST(FrameOf, DrawsOverWhatIsThere) {
  EXPECT_EQ(FrameOf("one\ntwo\n", 24), "\x1b[Hone\x1b[K\r\ntwo\x1b[K\x1b[J");
}

TEST(FrameOf, LeavesOutWhatWouldScroll) {
  EXPECT_EQ(FrameOf("one\ntwo\nthree\n", 2),
            "\x1b[Hone\x1b[K\r\ntwo\x1b[K\x1b[J");
  EXPECT_EQ(FrameOf("one\ntwo\n", 0), FrameOf("one\ntwo\n", 2));
}

TEST(FrameOf, OfNothingIsAnEmptyScreen) {
  EXPECT_EQ(FrameOf("\n", 24), "\x1b[H\x1b[J");
}

}  // namespace
}  // namespace phitap::cli
