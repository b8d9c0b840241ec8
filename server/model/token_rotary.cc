// SPDX-License-Identifier: Apache-2.0
#include "server/model/token_rotary.h"

#include <algorithm>
#include <utility>

#include "server/model/line_kernels.h"

namespace phitap {

TokenRotary::TokenRotary(const Rotary& rotary,
                         absl::Span<const ForwardRow> rows,
                         const std::vector<int>& indices,
                         at::ScalarType dtype) {
  std::vector<RotaryToken> tokens;
  std::map<std::pair<int64_t, bool>, int64_t> known;
  for (const int index : indices) {
    const ForwardRow& row = rows[index];
    const auto& positions = row.position_ids;
    const bool long_factors = row.long_factors.value_or(rotary.TakesLongFactors(
        *std::max_element(positions.begin(), positions.end())));
    RowTokens& of_row = rows_[index];
    of_row.first_position = row.first_position;
    for (const int64_t position : positions) {
      const auto [found, is_new] = known.try_emplace(
          {position, long_factors}, static_cast<int64_t>(tokens.size()));
      if (is_new) {
        tokens.push_back({.position = position, .long_factors = long_factors});
      }
      of_row.lines.push_back(found->second);
    }
  }
  tables_ = rotary.Tables(tokens, dtype);
}

RotaryTables TokenRotary::Tables(const TokenLayout& layout,
                                 int64_t line_count) const {
  std::vector<int64_t> lines;
  for (const TokenLayout::Row& row : layout.rows) {
    const RowTokens& tokens = rows_.at(row.row);
    for (const int64_t position : row.positions) {
      lines.push_back(tokens.lines[position - tokens.first_position]);
    }
  }
  return {.cos = GatherLines(tables_.cos, lines, line_count),
          .sin = GatherLines(tables_.sin, lines, line_count)};
}

}  // namespace phitap
