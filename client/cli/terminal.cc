#include "client/cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"

namespace phitap::cli {
namespace {

constexpr int kNarrowest = 40;

absl::string_view Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Colors DepthOfTerminal() {
  const absl::string_view promise = Environment("COLORTERM");
  if (promise == "truecolor" || promise == "24bit") return Colors::kTrue;
  const absl::string_view term = Environment("TERM");
  if (absl::StrContains(term, "direct")) return Colors::kTrue;
  if (term.empty() || term == "dumb") return Colors::kNone;
  return Colors::k256;
}

Colors DetectColors(bool interactive, ColorChoice choice) {
  if (choice == ColorChoice::kNever) return Colors::kNone;
  if (choice == ColorChoice::kAlways) {
    const Colors depth = DepthOfTerminal();
    return depth == Colors::kNone ? Colors::k256 : depth;
  }
  if (!interactive || !Environment("NO_COLOR").empty()) return Colors::kNone;
  return DepthOfTerminal();
}

int DetectWidth(int descriptor) {
  winsize size = {};
  if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    return size.ws_col;
  }
  int columns = 0;
  if (absl::SimpleAtoi(Environment("COLUMNS"), &columns) && columns > 0) {
    return columns;
  }
  return Terminal().width;
}

}  // namespace

Terminal DetectTerminal(int descriptor, ColorChoice choice) {
  const bool interactive = isatty(descriptor) == 1;
  return {.colors = DetectColors(interactive, choice),
          .width = std::max(kNarrowest, DetectWidth(descriptor)),
          .interactive = interactive};
}

}  // namespace phitap::cli
