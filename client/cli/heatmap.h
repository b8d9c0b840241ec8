// Numbers as shades: strips of a few characters, and matrices.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CLI_HEATMAP_H_
#define PHITAP_CLIENT_CLI_HEATMAP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "client/cli/terminal.h"

namespace phitap::cli {

// The finite ends of some values.
struct ValueRange {
  double low = 0;
  double high = 0;
};
ValueRange RangeOf(absl::Span<const double> values);

// Where a value lies in a range, from 0 to 1; 0 where the range is a point,
// NaN where the value is.
double ShareOf(double value, const ValueRange& range);

// A bar for each value, or for each group of neighbours (their largest) where
// there are more than `width`; its height is the value's place in `range`.
std::string RenderStrip(absl::Span<const double> values,
                        const ValueRange& range, int width);

// A matrix with a name for each row and column, e.g. attention probabilities.
struct Heatmap {
  std::vector<std::string> row_labels;
  std::vector<std::string> column_labels;
  // Stands over a column that is too narrow for its label.
  std::vector<int64_t> column_numbers;
  // Row after row; what is not finite is left blank.
  std::vector<std::vector<double>> rows;
  ValueRange range;
  // Whether the values are shares of one, written as percentages.
  bool is_share = false;
  // Digits behind the point of other numbers; fewer where they do not fit.
  int decimals = 1;
};

// A cell for each value. Where the terminal has room, cells bear their number
// and columns their label; else a cell is two characters, every fifth column
// bears its number, and the scale follows. Neighbours are merged (largest
// value) where there are more than fit.
std::string RenderHeatmap(const Heatmap& heatmap, const Terminal& terminal);

}  // namespace phitap::cli

#endif  // PHITAP_CLIENT_CLI_HEATMAP_H_
