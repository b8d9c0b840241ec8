#include "client/cli/style.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace phitap::cli {
namespace {

constexpr std::array<Rgb, 6> kViridis = {{{68, 1, 84},
                                          {65, 68, 135},
                                          {42, 120, 142},
                                          {34, 168, 132},
                                          {122, 209, 81},
                                          {253, 231, 37}}};
constexpr Rgb kGrey = {128, 128, 128};
constexpr Rgb kBlack = {0, 0, 0};
constexpr Rgb kWhite = {255, 255, 255};
// Above this the ramp is light enough for black text.
constexpr double kBrightShare = 0.55;

// The 6×6×6 cube of the 256 colours begins here.
constexpr int kCubeStart = 16;

int CubeLevel(uint8_t value) {
  return std::clamp((value - 35) / 40, value < 48 ? 0 : 1, 5);
}

std::string ColorCode(const Rgb& color, int plane, Colors colors) {
  if (colors == Colors::kTrue) {
    return absl::StrCat(plane, ";2;", color.red, ";", color.green, ";",
                        color.blue);
  }
  return absl::StrCat(plane, ";5;",
                      kCubeStart + 36 * CubeLevel(color.red) +
                          6 * CubeLevel(color.green) + CubeLevel(color.blue));
}

uint8_t Between(uint8_t low, uint8_t high, double share) {
  return static_cast<uint8_t>(std::lround(low + (high - low) * share));
}

// One of `steps` + 1 choices, evenly.
size_t StepOf(double share, int steps) {
  return static_cast<size_t>(std::lround(std::clamp(share, 0.0, 1.0) * steps));
}

}  // namespace

std::string Painted(absl::string_view text, const Style& style, Colors colors) {
  if (colors == Colors::kNone) return std::string(text);
  std::string codes;
  const auto add = [&codes](absl::string_view code) {
    absl::StrAppend(&codes, codes.empty() ? "" : ";", code);
  };
  if (style.bold) add("1");
  if (style.dim) add("2");
  if (style.underlined) add("4");
  if (style.foreground) add(ColorCode(*style.foreground, 38, colors));
  if (style.background) add(ColorCode(*style.background, 48, colors));
  if (codes.empty()) return std::string(text);
  return absl::StrCat("\x1b[", codes, "m", text, "\x1b[0m");
}

Rgb RampColor(double share) {
  if (std::isnan(share)) return kGrey;
  const double place =
      std::clamp(share, 0.0, 1.0) * static_cast<double>(kViridis.size() - 1);
  const size_t low = std::min(static_cast<size_t>(place), kViridis.size() - 2);
  const double rest = place - static_cast<double>(low);
  const Rgb& from = kViridis[low];
  const Rgb& to = kViridis[low + 1];
  return {Between(from.red, to.red, rest), Between(from.green, to.green, rest),
          Between(from.blue, to.blue, rest)};
}

Style RampStyle(double share) {
  return {.foreground = share > kBrightShare ? kBlack : kWhite,
          .background = RampColor(share)};
}

absl::string_view BarOf(double share) {
  static constexpr const char* kBars[] = {" ", "▁", "▂", "▃", "▄",
                                          "▅", "▆", "▇", "█"};
  return std::isnan(share) ? "?" : kBars[StepOf(share, 8)];
}

absl::string_view ShadeOf(double share) {
  static constexpr const char* kShades[] = {" ", "░", "▒", "▓", "█"};
  return std::isnan(share) ? "?" : kShades[StepOf(share, 4)];
}

}  // namespace phitap::cli
