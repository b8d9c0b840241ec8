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

constexpr int kNarrowCell = 2;
constexpr int kCellsPerNumber = 5;
// Room for a number, and for the beginning of a label.
constexpr int kNarrowestWideCell = 5;
constexpr int kWidestCell = 9;
constexpr int kWidestRowLabel = 16;
// More rows than this would scroll away.
constexpr size_t kMostRows = 48;
constexpr int kScaleSteps = 8;
constexpr double kPercent = 100;
// Shares that round to nothing bear no number.
constexpr double kSmallestShare = 0.005;

// How a heatmap fills the terminal.
struct Layout {
  int label_width = 0;
  int cell_width = kNarrowCell;
  size_t rows_by = 1;
  size_t columns_by = 1;

  bool has_numbers() const { return cell_width >= kNarrowestWideCell; }
};

// How many neighbours share a cell so that `count` of them fit into `room`.
size_t MergedBy(size_t count, size_t room) {
  return std::max<size_t>(1, (count + room - 1) / std::max<size_t>(1, room));
}

Layout LayOut(const Heatmap& heatmap, int width) {
  Layout layout;
  for (const std::string& label : heatmap.row_labels) {
    layout.label_width = std::max(layout.label_width, DisplayWidth(label));
  }
  layout.label_width = std::min(layout.label_width, kWidestRowLabel);
  const int room = std::max(kNarrowCell, width - layout.label_width - 1);
  const auto columns = static_cast<int>(heatmap.rows.front().size());
  const int wide = std::min(kWidestCell, room / std::max(columns, 1));
  layout.cell_width = wide >= kNarrowestWideCell ? wide : kNarrowCell;
  layout.columns_by = MergedBy(static_cast<size_t>(columns),
                               static_cast<size_t>(room / layout.cell_width));
  layout.rows_by = MergedBy(heatmap.rows.size(), kMostRows);
  return layout;
}

double LargestOf(absl::Span<const double> values) {
  double largest = std::numeric_limits<double>::quiet_NaN();
  for (const double value : values) largest = std::fmax(largest, value);
  return largest;
}

// Rows `first` to before `last` as one.
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

std::string NumberOf(double value, const Heatmap& heatmap, int width) {
  if (heatmap.is_share) {
    return std::abs(value) < kSmallestShare
               ? ""
               : absl::StrFormat("%.0f", value * kPercent);
  }
  std::string number;
  for (int decimals = heatmap.decimals; decimals >= 0; --decimals) {
    number = absl::StrFormat("%.*f", decimals, value);
    if (DisplayWidth(number) <= width) break;
  }
  return number;
}

std::string RenderCell(double value, const Heatmap& heatmap,
                       const Layout& layout, Colors colors) {
  if (!std::isfinite(value)) {
    return std::string(static_cast<size_t>(layout.cell_width), ' ');
  }
  const double share = ShareOf(value, heatmap.range);
  const std::string number =
      layout.has_numbers() ? NumberOf(value, heatmap, layout.cell_width - 2)
                           : "";
  if (colors != Colors::kNone) {
    return Painted(
        absl::StrCat(FitTo(number, layout.cell_width - 1, Align::kRight), " "),
        RampStyle(share), colors);
  }
  if (layout.has_numbers()) {
    return absl::StrCat(FitTo(number, layout.cell_width - 2, Align::kRight),
                        BarOf(share), " ");
  }
  return absl::StrCat(ShadeOf(share), ShadeOf(share));
}

std::string RenderTitles(const Heatmap& heatmap, const Layout& layout,
                         Colors colors) {
  std::string line(static_cast<size_t>(layout.label_width) + 1, ' ');
  // Narrow cells share a number between a few of them.
  const size_t step =
      layout.columns_by * (layout.has_numbers() ? 1 : kCellsPerNumber);
  for (size_t i = 0; i < heatmap.column_numbers.size(); i += step) {
    absl::StrAppend(&line,
                    layout.has_numbers()
                        ? FitTo(heatmap.column_labels[i], layout.cell_width - 1,
                                Align::kRight) +
                              " "
                        : FitTo(absl::StrCat(heatmap.column_numbers[i]),
                                kNarrowCell * kCellsPerNumber, Align::kLeft));
  }
  const Style style = {.bold = layout.has_numbers(),
                       .dim = !layout.has_numbers()};
  return Painted(absl::StripTrailingAsciiWhitespace(line), style, colors) +
         "\n";
}

std::string RenderScale(const Heatmap& heatmap, Colors colors) {
  std::string scale;
  for (int i = 0; i <= kScaleSteps; ++i) {
    const double share = static_cast<double>(i) / kScaleSteps;
    scale += colors == Colors::kNone ? std::string(ShadeOf(share))
                                     : Painted(" ", RampStyle(share), colors);
  }
  return absl::StrFormat("%.3g %s %.3g\n", heatmap.range.low, scale,
                         heatmap.range.high);
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
  if (heatmap.rows.empty() || heatmap.rows.front().empty()) return "";
  const Layout layout = LayOut(heatmap, terminal.width);
  std::string text = RenderTitles(heatmap, layout, terminal.colors);
  for (size_t row = 0; row < heatmap.rows.size(); row += layout.rows_by) {
    const size_t last = std::min(row + layout.rows_by, heatmap.rows.size());
    std::string line =
        FitTo(heatmap.row_labels[row], layout.label_width, Align::kRight) + " ";
    for (const double value :
         MergedRow(heatmap, row, last, layout.columns_by)) {
      line += RenderCell(value, heatmap, layout, terminal.colors);
    }
    absl::StrAppend(&text, absl::StripTrailingAsciiWhitespace(line), "\n");
  }
  // Cells with numbers need no scale.
  if (layout.has_numbers()) return text;
  return absl::StrCat(
      text, std::string(static_cast<size_t>(layout.label_width) + 1, ' '),
      RenderScale(heatmap, terminal.colors));
}

}  // namespace phitap::cli
