// Colour in the terminal.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CLI_STYLE_H_
#define PHITAP_CLIENT_CLI_STYLE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace phitap::cli {

enum class Colors { kNone, k256, kTrue };

struct Rgb {
  uint8_t red = 0;
  uint8_t green = 0;
  uint8_t blue = 0;

  friend bool operator==(const Rgb&, const Rgb&) = default;
};

struct Style {
  bool bold = false;
  bool dim = false;
  bool underlined = false;
  std::optional<Rgb> foreground;
  std::optional<Rgb> background;
};

// `text` between escape sequences; as it is where there is no colour.
std::string Painted(absl::string_view text, const Style& style, Colors colors);

// A colour for a share from 0 to 1: dark violet over green to yellow, also in
// order of brightness (viridis). NaN is grey.
Rgb RampColor(double share);

// A background in the ramp's colour with text that is legible on it.
Style RampStyle(double share);

// A block character for a share from 0 to 1: ` ▁▂▃▄▅▆▇█`. NaN is `?`.
absl::string_view BarOf(double share);

// A shaded cell for a share from 0 to 1: ` ░▒▓█`. NaN is `?`.
absl::string_view ShadeOf(double share);

}  // namespace phitap::cli

#endif  // PHITAP_CLIENT_CLI_STYLE_H_
