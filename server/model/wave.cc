// SPDX-License-Identifier: Apache-2.0
#include "server/model/wave.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "server/model/joined_lines.h"
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

Visibility VisibilityOf(const ActiveRow& row, const ModelSpec& spec) {
  return Visibility(spec.sliding_window, row.ask->hidden_positions);
}

Wave::Wave(absl::Span<const ForwardRow> rows, const std::vector<int>& indices,
           const Options& options)
    : options_(options), tree_(rows), dropped_(rows.size()) {
  const auto resolve = [&](absl::Span<const int64_t> asked,
                           const ForwardRow& row) {
    if (options.positions == Positions::kAsAsked || asked.empty()) {
      return std::vector<int64_t>(asked.begin(), asked.end());
    }
    return AllPositions(row);
  };
  for (const int index : indices) {
    const ForwardRow& row = rows[index];
    waiting_.push_back({.index = index,
                        .ask = &row,
                        .layer_count = row.layer_count,
                        .tail_positions = resolve(row.tail_positions, row),
                        .norm_positions = resolve(row.norm_positions, row),
                        .head_positions = resolve(row.head_positions, row)});
  }
  TakeIn(-1);
  layout_ = LayOutAll(rows_);
}

int64_t Wave::last_end() const {
  int64_t end = 0;
  for (const auto* const rows : {&rows_, &waiting_}) {
    for (const ActiveRow& row : *rows) end = std::max(end, row.end_position());
  }
  return end;
}

bool Wave::TakeIn(int layer) {
  const auto joining = std::stable_partition(
      waiting_.begin(), waiting_.end(),
      [&](const ActiveRow& row) { return row.ask->first_layer != layer + 1; });
  if (joining == waiting_.end()) return false;
  std::move(joining, waiting_.end(), std::back_inserter(rows_));
  waiting_.erase(joining, waiting_.end());
  std::stable_sort(rows_.begin(), rows_.end(),
                   [](const ActiveRow& a, const ActiveRow& b) {
                     return a.layer_count > b.layer_count;
                   });
  return true;
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

at::Tensor Wave::Join(int layer, const at::Tensor& x) {
  const TokenLayout before = layout_;
  if (!TakeIn(layer)) return x;
  std::vector<const std::vector<int64_t>*> held(dropped_.size());
  for (const auto& row : before.rows) held[row.row] = &row.positions;
  std::vector<std::vector<int64_t>> joining;
  std::vector<RowPositions> rows;
  joining.reserve(rows_.size());
  for (const ActiveRow& row : rows_) {
    const std::vector<int64_t>*& positions = held[row.index];
    if (positions == nullptr) {
      const bool last = row.layer_count == layer + 1;
      joining.push_back(last ? row.tail_positions : AllPositions(*row.ask));
      positions = &joining.back();
    }
    rows.push_back({.row = row.index, .positions = positions});
  }
  layout_ = LayOut(rows);
  return JoinLines({.lines = x, .layout = before}, layout_, tree_, layer,
                   line_count());
}

Departure Wave::EndLayer(int layer, const std::vector<int>& dropped,
                         at::Tensor& x) {
  for (const int row : dropped) dropped_[row] = true;
  std::erase_if(waiting_,
                [&](const ActiveRow& row) { return dropped_[row.index]; });
  Departure departure;
  std::vector<bool> stays;
  std::vector<RowPositions> leaving;
  for (const ActiveRow& row : rows_) {
    const bool drop = dropped_[row.index];
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
  Keep(stays, x);
  CheckParents();
  return departure;
}

void Wave::Keep(const std::vector<bool>& stays, at::Tensor& x) {
  if (std::find(stays.begin(), stays.end(), false) == stays.end()) return;
  std::vector<ActiveRow> rows;
  for (size_t i = 0; i < rows_.size(); ++i) {
    if (stays[i]) rows.push_back(std::move(rows_[i]));
  }
  rows_ = std::move(rows);
  const TokenLayout kept = LayOutAll(rows_);
  const std::vector<int64_t> lines = LinesOf(kept, layout_);
  const int64_t count = PaddedCount(kept);
  // A view would keep the lines of the rows that have left as well.
  const bool most = 2 * count >= x.size(0);
  x = most && AreTheFirst(lines) ? x.narrow(0, 0, count)
                                 : GatherLines(x, lines, count);
  layout_ = kept;
}

void Wave::CheckParents() const {
  const auto needs_parent = [&](int row, bool waits) {
    return waits || tree_.row(row).first_position > 0;
  };
  for (const auto* const rows : {&rows_, &waiting_}) {
    const bool waits = rows == &waiting_;
    for (const ActiveRow& row : *rows) {
      const int parent = row.ask->parent_row;
      if (parent < 0 || !needs_parent(row.index, waits)) continue;
      TORCH_CHECK(!dropped_[parent], "row ", parent, " was dropped, row ",
                  row.index, " needs it");
    }
  }
}

}  // namespace phitap
