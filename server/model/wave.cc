// SPDX-License-Identifier: Apache-2.0
#include "server/model/wave.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "server/model/line_kernels.h"

namespace phitap {
namespace {

std::vector<int64_t> AllPositions(const ForwardRow& row) {
  std::vector<int64_t> all(row.ids.size());
  std::iota(all.begin(), all.end(), row.first_position);
  return all;
}

TokenLayout LayOutAll(const std::vector<ActiveRow>& rows) {
  TokenLayout layout;
  int64_t begin = 0;
  for (const ActiveRow& row : rows) {
    layout.rows.push_back({.row = row.index,
                           .begin = begin,
                           .positions = AllPositions(*row.ask)});
    begin += row.token_count();
  }
  return layout;
}

bool AreTheFirst(const std::vector<int64_t>& lines) {
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i] != static_cast<int64_t>(i)) return false;
  }
  return true;
}

}  // namespace

TokenLayout LayOut(const std::vector<RowPositions>& rows) {
  TokenLayout layout;
  int64_t begin = 0;
  for (const auto& [row, positions] : rows) {
    const auto count = static_cast<int64_t>(positions->size());
    layout.rows.push_back(
        {.row = row,
         .begin = begin,
         .positions = *positions,
         .contiguous = count == 0 ||
                       positions->back() - positions->front() + 1 == count});
    begin += count;
  }
  return layout;
}

int64_t LineCount(const TokenLayout& layout) {
  if (layout.rows.empty()) return 0;
  const TokenLayout::Row& last = layout.rows.back();
  return last.begin + static_cast<int64_t>(last.positions.size());
}

std::vector<int64_t> LinesOf(const TokenLayout& to, const TokenLayout& from) {
  std::vector<int64_t> lines;
  lines.reserve(LineCount(to));
  auto source = from.rows.begin();
  for (const TokenLayout::Row& row : to.rows) {
    while (source->row != row.row) ++source;
    for (const int64_t position : row.positions) {
      lines.push_back(LineOf(*source, position));
    }
  }
  return lines;
}

int64_t LineOf(const TokenLayout::Row& row, int64_t position) {
  if (row.contiguous) return row.begin + position - row.positions.front();
  const auto found =
      std::lower_bound(row.positions.begin(), row.positions.end(), position);
  return row.begin + (found - row.positions.begin());
}

Wave::Wave(absl::Span<const ForwardRow> rows, const std::vector<int>& indices,
           const Options& options)
    : options_(options) {
  const auto resolve = [&](absl::Span<const int64_t> asked,
                           const ForwardRow& row) {
    if (options.positions == Positions::kAsAsked || asked.empty()) {
      return std::vector<int64_t>(asked.begin(), asked.end());
    }
    return AllPositions(row);
  };
  for (const int index : indices) {
    const ForwardRow& row = rows[index];
    rows_.push_back({.index = index,
                     .ask = &row,
                     .layer_count = row.layer_count,
                     .tail_positions = resolve(row.tail_positions, row),
                     .norm_positions = resolve(row.norm_positions, row),
                     .head_positions = resolve(row.head_positions, row)});
  }
  std::stable_sort(rows_.begin(), rows_.end(),
                   [](const ActiveRow& a, const ActiveRow& b) {
                     return a.layer_count > b.layer_count;
                   });
  layout_ = LayOutAll(rows_);
}

int64_t Wave::Padded(int64_t line_count) const {
  const int64_t multiple = options_.line_multiple;
  return (line_count + multiple - 1) / multiple * multiple;
}

int64_t Wave::PaddedCount(const TokenLayout& layout) const {
  return Padded(LineCount(layout));
}

void Wave::BeginLayer(int layer) {
  std::vector<RowPositions> rows;
  for (size_t i = 0; i < rows_.size(); ++i) {
    const bool last = rows_[i].layer_count == layer + 1;
    rows.push_back({.row = rows_[i].index,
                    .positions = last ? &rows_[i].tail_positions
                                      : &layout_.rows[i].positions});
  }
  tail_ = LayOut(rows);
  tail_lines_.reset();
  if (LineCount(tail_) < LineCount(layout_)) {
    tail_lines_ = LinesOf(tail_, layout_);
  }
}

at::Tensor Wave::EnterTail(const at::Tensor& x) {
  layout_ = tail_;
  if (!tail_lines_) return x;
  return GatherLines(x, *tail_lines_, tail_line_count());
}

Departure Wave::EndLayer(int layer, const std::vector<int>& dropped,
                         at::Tensor& x, RotaryTables& rotary) {
  Departure departure;
  std::vector<bool> stays;
  std::vector<RowPositions> leaving;
  for (const ActiveRow& row : rows_) {
    const bool drop =
        std::find(dropped.begin(), dropped.end(), row.index) != dropped.end();
    const bool ends = row.layer_count == layer + 1;
    stays.push_back(!drop && !ends);
    if (!drop && ends && !row.norm_positions.empty()) {
      departure.rows.push_back(row);
    }
  }
  for (const ActiveRow& row : departure.rows) {
    leaving.push_back({.row = row.index, .positions = &row.norm_positions});
  }
  if (!leaving.empty()) {
    const std::vector<int64_t> lines = LinesOf(LayOut(leaving), layout_);
    const auto count = static_cast<int64_t>(lines.size());
    departure.lines = AreTheFirst(lines) ? x.narrow(0, 0, count)
                                         : GatherLines(x, lines, count);
  }
  Keep(stays, x, rotary);
  return departure;
}

void Wave::Keep(const std::vector<bool>& stays, at::Tensor& x,
                RotaryTables& rotary) {
  if (std::find(stays.begin(), stays.end(), false) == stays.end()) return;
  std::vector<ActiveRow> rows;
  for (size_t i = 0; i < rows_.size(); ++i) {
    if (stays[i]) rows.push_back(std::move(rows_[i]));
  }
  rows_ = std::move(rows);
  const TokenLayout kept = LayOutAll(rows_);
  const std::vector<int64_t> lines = LinesOf(kept, layout_);
  const int64_t count = PaddedCount(kept);
  const bool first = AreTheFirst(lines);
  // Rows that stay stand before those that end, so that their lines in the tail
  // are those in the whole, which the tables have.
  for (at::Tensor* const matrix : {&x, &rotary.cos, &rotary.sin}) {
    *matrix = first ? matrix->narrow(0, 0, count)
                    : GatherLines(*matrix, lines, count);
  }
  layout_ = kept;
}

}  // namespace phitap
