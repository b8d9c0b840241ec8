// Where output goes: how wide it is, and whether it shows colour.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CLI_TERMINAL_H_
#define PHITAP_CLIENT_CLI_TERMINAL_H_

#include "client/cli/style.h"

namespace phitap::cli {

enum class ColorChoice { kAuto, kAlways, kNever };

struct Terminal {
  Colors colors = Colors::kNone;
  // Columns.
  int width = 100;
  // Whether a person is looking; false for files and pipes.
  bool interactive = false;
};

// The terminal behind a file descriptor. Colour needs a terminal whose TERM or
// COLORTERM promises it and no NO_COLOR, unless `choice` decides; the width of
// anything else is COLUMNS, or 100.
Terminal DetectTerminal(int descriptor, ColorChoice choice);

}  // namespace phitap::cli

#endif  // PHITAP_CLIENT_CLI_TERMINAL_H_
