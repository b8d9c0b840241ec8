#include "client/cli/live_screen.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <iostream>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace phitap::cli {
namespace {

constexpr char kEnter[] = "\x1b[?1049h\x1b[?25l";
constexpr char kLeave[] = "\x1b[?25h\x1b[?1049l";
constexpr char kHome[] = "\x1b[H";
constexpr char kWipeLine[] = "\x1b[K";
constexpr char kWipeBelow[] = "\x1b[J";

int RowsOfOutput() {
  winsize size = {};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_row : 0;
}

}  // namespace

std::string FrameOf(absl::string_view picture, int rows) {
  std::vector<absl::string_view> lines = absl::StrSplit(picture, '\n');
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  if (rows > 0 && lines.size() > static_cast<size_t>(rows)) {
    lines.resize(static_cast<size_t>(rows));
  }
  std::string frame = kHome;
  for (size_t i = 0; i < lines.size(); ++i) {
    absl::StrAppend(&frame, i == 0 ? "" : "\r\n", lines[i], kWipeLine);
  }
  return absl::StrCat(frame, kWipeBelow);
}

LiveScreen::LiveScreen(std::function<void()> on_quit)
    : on_quit_(std::move(on_quit)) {
  std::cout << kEnter << std::flush;
  has_keys_ = isatty(STDIN_FILENO) == 1 &&
              tcgetattr(STDIN_FILENO, &before_) == 0 && pipe(stop_) == 0;
  if (!has_keys_) return;
  termios quiet = before_;
  // Ctrl-C stays a signal.
  quiet.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  tcsetattr(STDIN_FILENO, TCSANOW, &quiet);
  keys_ = std::thread([this] { ReadKeys(); });
}

LiveScreen::~LiveScreen() {
  if (has_keys_) {
    close(stop_[1]);
    keys_.join();
    close(stop_[0]);
    tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  std::cout << kLeave << std::flush;
}

void LiveScreen::Draw(absl::string_view picture) {
  std::cout << FrameOf(picture, RowsOfOutput()) << std::flush;
}

void LiveScreen::ReadKeys() {
  pollfd ends[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                   {.fd = stop_[0], .events = POLLIN}};
  while (poll(ends, 2, -1) > 0 && ends[1].revents == 0) {
    char key = 0;
    if (read(STDIN_FILENO, &key, 1) == 1 && key != 'q' && key != 'Q') continue;
    return on_quit_();
  }
}

}  // namespace phitap::cli
