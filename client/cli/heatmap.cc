#include "client/cli/heatmap.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "client/cli/text_width.h"

namespace phitap::cli {
namespace {

constexpr int kCellWidth = 2;
constexpr int kWidestRowLabel = 16;
// More rows than this would scroll away.
constexpr size_t kMostRows = 48;
constexpr int kScaleSteps = 8;

// How many neighbours share a cell so that `count` of them fit into `room`.
size_t MergedBy(size_t count, size_t room) {
  return std::max<size_t>(1, (count + room - 1) / std::max<size_t>(1, room));
}

double LargestOf(absl::Span<const double> values) {
  double largest = std::numeric_limits<double>::quiet_NaN();
  for (const double value : values) largest = std::fmax(largest, value);
  return largest;
}

// Rows `first` to `last` as one, columns merged by `columns_by`.
std::vector<double> MergedRow(const Heatmap& heatmap, size_t first, size_t last,
                              size_t columns_by) {
  std::vector<double> merged;
  const size_t columns = heatmap.rows[first].size();
  for (size_t column = 0; column < columns; column += columns_by) {
    double largest = std::numeric_limits<double>::quiet_NaN();
    for (size_t row = first; row < last; ++row) {
      const absl::Span<const double> values(heatmap.rows[row]);
      largest =
          std::fmax(largest, LargestOf(values.subspan(column, columns_by)));
    }
    merged.push_back(largest);
  }
  return merged;
}

std::string RenderCell(double value, const ValueRange& range, Colors colors) {
  if (!std::isfinite(value)) return std::string(kCellWidth, ' ');
  const double share = ShareOf(value, range);
  if (colors != Colors::kNone) {
    return Painted(std::string(kCellWidth, ' '), RampStyle(share), colors);
  }
  std::string text;
  for (int i = 0; i < kCellWidth; ++i) absl::StrAppend(&text, ShadeOf(share));
  return text;
}

std::string RenderNumbers(const Heatmap& heatmap, int label_width,
                          size_t columns_by, Colors colors) {
  std::string line(static_cast<size_t>(label_width) + 1, ' ');
  for (size_t i = 0; i < heatmap.column_numbers.size(); i += columns_by) {
    absl::StrAppend(&line,
                    absl::StrFormat("%2d", heatmap.column_numbers[i] % 100));
  }
  return Painted(line, {.dim = true}, colors) + "\n";
}

std::string RenderScale(const ValueRange& range, Colors colors) {
  std::string scale;
  for (int i = 0; i <= kScaleSteps; ++i) {
    const double share = static_cast<double>(i) / kScaleSteps;
    scale += colors == Colors::kNone ? std::string(ShadeOf(share))
                                     : Painted(" ", RampStyle(share), colors);
  }
  return absl::StrFormat("%.3g %s %.3g\n", range.low, scale, range.high);
}

int LabelWidth(const Heatmap& heatmap) {
  int width = 0;
  for (const std::string& label : heatmap.row_labels) {
    width = std::max(width, DisplayWidth(label));
  }
  return std::min(width, kWidestRowLabel);
}

}  // namespace

ValueRange RangeOf(absl::Span<const double> values) {
  ValueRange range = {.low = std::numeric_limits<double>::infinity(),
                      .high = -std::numeric_limits<double>::infinity()};
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    range.low = std::min(range.low, value);
    range.high = std::max(range.high, value);
  }
  return range.low <= range.high ? range : ValueRange();
}

double ShareOf(double value, const ValueRange& range) {
  if (std::isnan(value)) return value;
  if (range.high <= range.low) return 0;
  return std::clamp((value - range.low) / (range.high - range.low), 0.0, 1.0);
}

std::string RenderStrip(absl::Span<const double> values,
                        const ValueRange& range, int width) {
  const size_t by = MergedBy(values.size(), static_cast<size_t>(width));
  std::string strip;
  for (size_t i = 0; i < values.size(); i += by) {
    absl::StrAppend(&strip,
                    BarOf(ShareOf(LargestOf(values.subspan(i, by)), range)));
  }
  return strip;
}

std::string RenderHeatmap(const Heatmap& heatmap, const Terminal& terminal) {
  if (heatmap.rows.empty()) return "";
  const int label_width = LabelWidth(heatmap);
  const int room = (terminal.width - label_width - 1) / kCellWidth;
  const size_t columns_by = MergedBy(heatmap.rows.front().size(),
                                     static_cast<size_t>(std::max(room, 1)));
  const size_t rows_by = MergedBy(heatmap.rows.size(), kMostRows);
  std::string text =
      RenderNumbers(heatmap, label_width, columns_by, terminal.colors);
  for (size_t row = 0; row < heatmap.rows.size(); row += rows_by) {
    const size_t last = std::min(row + rows_by, heatmap.rows.size());
    std::string line =
        FitTo(heatmap.row_labels[row], label_width, Align::kRight) + " ";
    for (const double value : MergedRow(heatmap, row, last, columns_by)) {
      line += RenderCell(value, heatmap.range, terminal.colors);
    }
    absl::StrAppend(&text, absl::StripTrailingAsciiWhitespace(line), "\n");
  }
  return absl::StrCat(text,
                      std::string(static_cast<size_t>(label_width) + 1, ' '),
                      RenderScale(heatmap.range, terminal.colors));
}

}  // namespace phitap::cli
