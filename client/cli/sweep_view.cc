#include "client/cli/sweep_view.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/heatmap.h"
#include "client/cli/table.h"
#include "client/cpp/float_values.h"

namespace phitap::cli {
namespace {

// Two runs closer than this are no scale.
constexpr double kSmallestDistance = 1e-9;

// A grid of one metric: the last two axes, or one.
struct Grid {
  // Cells of the axes before them, e.g. `×0.5`.
  std::string title;
  std::vector<std::string> row_labels;
  std::vector<std::string> column_labels;
  std::vector<int64_t> column_numbers;
  std::vector<std::vector<double>> rows;
};

int64_t SizeOf(const NamedAxis& axis) {
  return static_cast<int64_t>(axis.labels.size());
}

// The axes down and across; null where there is none.
struct GridAxes {
  const NamedAxis* down = nullptr;
  const NamedAxis* across = nullptr;

  int64_t height() const { return down == nullptr ? 1 : SizeOf(*down); }
  int64_t width() const { return across == nullptr ? 1 : SizeOf(*across); }
};

GridAxes AxesOf(const std::vector<NamedAxis>& axes) {
  if (axes.size() >= 2) {
    return {.down = &axes[axes.size() - 2], .across = &axes.back()};
  }
  // Layers alone stand upon each other.
  return axes.front().kind == "layers" ? GridAxes{.down = &axes.front()}
                                       : GridAxes{.across = &axes.front()};
}

// What the `index`-th grid is called, by the axes before the last two.
std::string TitleOf(const std::vector<NamedAxis>& axes, int64_t index) {
  std::string title;
  for (size_t i = axes.size() > 2 ? axes.size() - 2 : 0; i-- > 0;) {
    const int64_t size = SizeOf(axes[i]);
    const std::string& label =
        axes[i].labels[static_cast<size_t>(index % size)];
    title = absl::StrCat(label, title.empty() ? "" : ", ", title);
    index /= size;
  }
  return title;
}

Grid GridAt(const SweepAnswer& answer, const SweptMetric& metric,
            int64_t index) {
  const GridAxes axes = AxesOf(answer.axes);
  Grid grid = {.title = TitleOf(answer.axes, index)};
  const int64_t width = axes.width();
  for (int64_t row = 0; row < axes.height(); ++row) {
    grid.rows.push_back(client::ElementsAt(
        metric.values, (index * axes.height() + row) * width, width));
  }
  grid.row_labels =
      axes.down == nullptr ? std::vector<std::string>{""} : axes.down->labels;
  grid.column_labels = axes.across == nullptr
                           ? std::vector<std::string>{metric.label}
                           : axes.across->labels;
  for (int64_t column = 0; column < width; ++column) {
    grid.column_numbers.push_back(
        axes.across == nullptr || axes.across->kind == "scales"
            ? column
            : static_cast<int64_t>(
                  axes.across->values[static_cast<size_t>(column)]));
  }
  if (axes.down != nullptr && axes.down->kind == "layers") {
    std::reverse(grid.rows.begin(), grid.rows.end());
    std::reverse(grid.row_labels.begin(), grid.row_labels.end());
  }
  return grid;
}

std::vector<Grid> GridsOf(const SweepAnswer& answer,
                          const SweptMetric& metric) {
  std::vector<Grid> grids;
  const GridAxes axes = AxesOf(answer.axes);
  const int64_t cells = axes.height() * axes.width();
  const int64_t count =
      cells == 0 ? 0 : ElementCount(metric.values.shape) / cells;
  for (int64_t index = 0; index < count; ++index) {
    grids.push_back(GridAt(answer, metric, index));
  }
  return grids;
}

bool HasScale(const SweptMetric& metric) {
  return metric.unedited && metric.reference &&
         std::abs(*metric.reference - *metric.unedited) > kSmallestDistance;
}

std::string BaselineText(const std::string& run, double value,
                         absl::string_view share) {
  return absl::StrFormat("run %s: %.4g%s", run, value, share);
}

std::string MetricLine(const SweepAnswer& answer, const SweptMetric& metric,
                       bool is_normalised, Colors colors) {
  std::string line = Painted(metric.text, {.bold = true}, colors);
  if (metric.unedited) {
    absl::StrAppend(&line, "   ",
                    BaselineText(answer.run, *metric.unedited,
                                 is_normalised ? " = 0%" : ""));
  }
  if (metric.reference) {
    absl::StrAppend(&line, ", ",
                    BaselineText(answer.reference_run, *metric.reference,
                                 is_normalised ? " = 100%" : ""));
  }
  return line + "\n";
}

// Enough to tell the ends of a range apart.
int DecimalsFor(const ValueRange& range) {
  int decimals = 1;
  for (double span = range.high - range.low;
       span > 0 && span < 1 && decimals < 5; span *= 10) {
    ++decimals;
  }
  return decimals;
}

ValueRange RangeOfGrids(const std::vector<Grid>& grids) {
  std::vector<double> all;
  for (const Grid& grid : grids) {
    for (const std::vector<double>& row : grid.rows) {
      all.insert(all.end(), row.begin(), row.end());
    }
  }
  return RangeOf(all);
}

// As shares of the way from the unedited run to the reference.
void Normalise(const SweptMetric& metric, Grid* grid) {
  for (std::vector<double>& row : grid->rows) {
    for (double& value : row) {
      value =
          (value - *metric.unedited) / (*metric.reference - *metric.unedited);
    }
  }
}

std::string TitleLine(const Grid& grid) {
  return grid.title.empty() ? "" : absl::StrCat(grid.title, "\n");
}

}  // namespace

std::string RenderSweep(const SweepAnswer& answer, SweepScale scale,
                        const Terminal& terminal) {
  std::string text;
  for (const SweptMetric& metric : answer.metrics) {
    const bool is_normalised =
        scale == SweepScale::kNormalised && HasScale(metric);
    absl::StrAppend(&text, text.empty() ? "" : "\n",
                    MetricLine(answer, metric, is_normalised, terminal.colors));
    std::vector<Grid> grids = GridsOf(answer, metric);
    const ValueRange raw = RangeOfGrids(grids);
    for (Grid& grid : grids) {
      if (is_normalised) Normalise(metric, &grid);
      absl::StrAppend(
          &text, TitleLine(grid),
          RenderHeatmap(
              {.row_labels = std::move(grid.row_labels),
               .column_labels = std::move(grid.column_labels),
               .column_numbers = std::move(grid.column_numbers),
               .rows = std::move(grid.rows),
               .range = is_normalised ? ValueRange{.low = 0, .high = 1} : raw,
               .is_share = is_normalised,
               .decimals = DecimalsFor(raw)},
              terminal));
    }
  }
  return text;
}

std::string RenderSweepValues(const SweepAnswer& answer,
                              const Terminal& terminal) {
  std::string text;
  for (const SweptMetric& metric : answer.metrics) {
    for (const Grid& grid : GridsOf(answer, metric)) {
      Table table = {.columns = {{.title = metric.label}}};
      for (const std::string& label : grid.column_labels) {
        table.columns.push_back({.title = label, .align = Align::kRight});
      }
      for (size_t row = 0; row < grid.rows.size(); ++row) {
        std::vector<std::string> cells = {grid.row_labels[row]};
        for (const double value : grid.rows[row]) {
          cells.push_back(absl::StrFormat("%.4g", value));
        }
        table.AddRow(std::move(cells));
      }
      absl::StrAppend(&text, text.empty() ? "" : "\n", TitleLine(grid),
                      Render(table, terminal));
    }
  }
  return text;
}

}  // namespace phitap::cli
