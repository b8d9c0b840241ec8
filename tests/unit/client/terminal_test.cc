#include "client/cli/terminal.h"

#include <gtest/gtest.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

namespace phitap::cli {
namespace {

// A terminal of 77 columns, and a pipe.
class DetectTerminalTest : public testing::Test {
 protected:
  DetectTerminalTest() {
    const winsize size = {.ws_row = 20, .ws_col = 77};
    EXPECT_EQ(openpty(&outer_, &terminal_, nullptr, nullptr, &size), 0);
    EXPECT_EQ(pipe(pipe_), 0);
    for (const char* name : {"NO_COLOR", "COLORTERM", "TERM", "COLUMNS"}) {
      unsetenv(name);
    }
  }
  ~DetectTerminalTest() override {
    for (const int end : {outer_, terminal_, pipe_[0], pipe_[1]}) close(end);
  }

  int outer_ = -1;
  int terminal_ = -1;
  int pipe_[2] = {-1, -1};
};

TEST_F(DetectTerminalTest, BelievesWhatTheTerminalPromises) {
  setenv("TERM", "xterm-256color", 1);
  const Terminal terminal = DetectTerminal(terminal_, ColorChoice::kAuto);
  EXPECT_TRUE(terminal.interactive);
  EXPECT_EQ(terminal.width, 77);
  EXPECT_EQ(terminal.colors, Colors::k256);
  setenv("COLORTERM", "truecolor", 1);
  EXPECT_EQ(DetectTerminal(terminal_, ColorChoice::kAuto).colors,
            Colors::kTrue);
}

TEST_F(DetectTerminalTest, HasNoColourWhereItIsNotWanted) {
  setenv("TERM", "xterm-256color", 1);
  setenv("NO_COLOR", "1", 1);
  EXPECT_EQ(DetectTerminal(terminal_, ColorChoice::kAuto).colors,
            Colors::kNone);
  EXPECT_EQ(DetectTerminal(terminal_, ColorChoice::kAlways).colors,
            Colors::k256);
  unsetenv("NO_COLOR");
  EXPECT_EQ(DetectTerminal(terminal_, ColorChoice::kNever).colors,
            Colors::kNone);
  setenv("TERM", "dumb", 1);
  EXPECT_EQ(DetectTerminal(terminal_, ColorChoice::kAuto).colors,
            Colors::kNone);
}

TEST_F(DetectTerminalTest, TakesAPipeForAFile) {
  setenv("TERM", "xterm-256color", 1);
  const Terminal terminal = DetectTerminal(pipe_[1], ColorChoice::kAuto);
  EXPECT_FALSE(terminal.interactive);
  EXPECT_EQ(terminal.colors, Colors::kNone);
  EXPECT_EQ(terminal.width, 100);
  setenv("COLUMNS", "64", 1);
  EXPECT_EQ(DetectTerminal(pipe_[1], ColorChoice::kAuto).width, 64);
}

}  // namespace
}  // namespace phitap::cli
