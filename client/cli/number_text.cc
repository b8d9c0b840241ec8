#include "client/cli/number_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace phitap::cli {
namespace {

constexpr double kStep = 1000;

// Three significant digits and a unit: units[0] counts ones.
template <size_t n>
std::string Scaled(double value, const char* const (&units)[n]) {
  size_t unit = 0;
  // 999.5 would be printed as 1000 of the smaller unit.
  while (value >= 999.5 && unit + 1 < n) {
    value /= kStep;
    ++unit;
  }
  const int decimals = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return absl::StrFormat("%.*f%s", decimals, value, units[unit]);
}

}  // namespace

std::string BytesText(int64_t bytes) {
  return Scaled(static_cast<double>(bytes), {" B", " kB", " MB", " GB", " TB"});
}

std::string RateText(double bytes_per_second) {
  return Scaled(bytes_per_second, {" B/s", " kB/s", " MB/s", " GB/s"});
}

std::string CountText(int64_t count) {
  return Scaled(static_cast<double>(count), {"", " K", " M", " B"});
}

std::string DurationText(absl::Duration duration) {
  const double seconds = absl::ToDoubleSeconds(duration);
  if (seconds < 1) return absl::StrFormat("%.1f ms", seconds * kStep);
  return absl::StrFormat("%.2f s", seconds);
}

std::string ShapeText(absl::Span<const int64_t> shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

}  // namespace phitap::cli
