// SPDX-License-Identifier: Apache-2.0
#include "server/model/tile_attention.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "server/model/line_kernels.h"

namespace phitap {
namespace {

int64_t TileCount(int64_t token_count) {
  return (token_count + kTileLines - 1) / kTileLines;
}

// Calls `copy(position, line, count)` for each stretch of consecutive positions
// that the row has in the tile, `line` being the first's.
template <typename Copy>
void ForStretches(const TokenLayout::Row& row, int64_t tile, const Copy& copy) {
  const auto& positions = row.positions;
  const int64_t end = (tile + 1) * kTileLines;
  auto first =
      std::lower_bound(positions.begin(), positions.end(), tile * kTileLines);
  while (first != positions.end() && *first < end) {
    auto last = first;
    while (last + 1 != positions.end() && *(last + 1) == *last + 1 &&
           *(last + 1) < end) {
      ++last;
    }
    copy(*first, row.begin + (first - positions.begin()), last - first + 1);
    first = last + 1;
  }
}

bool HasPositionIn(const TokenLayout::Row& row, int64_t tile) {
  bool has = false;
  ForStretches(row, tile, [&](int64_t, int64_t, int64_t) { has = true; });
  return has;
}

PatternBlock BlockOf(const ActiveRow& row, int64_t tile) {
  const int64_t first = tile * kTileLines;
  return {.row = row.index,
          .first_query = first,
          .query_count = std::min(kTileLines, row.token_count() - first)};
}

// Softmax by hand, each step shown.
at::Tensor Eager(const AttentionTile& tile, const PatternBlock& block,
                 const Pass& pass) {
  const at::Tensor scores =
      pass.ShowPattern(Hook::kAttentionScores, block, Scores(tile));
  return pass.ShowPattern(Hook::kAttentionProbabilities, block,
                          Probabilities(tile, scores));
}

bool WantsPattern(const PatternBlock& block, const Pass& pass) {
  return pass.WantsPattern(Hook::kAttentionScores, block) ||
         pass.WantsPattern(Hook::kAttentionProbabilities, block);
}

}  // namespace

at::Tensor TileAttention::Attend(const AttentionInputs& inputs,
                                 const Pass& pass) {
  if (!band_) {
    int64_t most_tokens = 0;
    for (const ActiveRow& row : pass.wave.rows()) {
      most_tokens = std::max(most_tokens, row.token_count());
    }
    band_.emplace(spec_.sliding_window, TileCount(most_tokens),
                  inputs.queries.scalar_type());
  }
  at::Tensor out =
      at::empty({pass.wave.tail_line_count(), spec_.num_heads, spec_.head_dim},
                inputs.queries.options());
  const int64_t filled = LineCount(pass.wave.tail());
  out.narrow(0, filled, out.size(0) - filled).zero_();
  for (size_t row = 0; row < pass.wave.rows().size(); ++row) {
    Fill(row, inputs, pass);
    AttendRow(row, inputs, pass, out);
  }
  return out;
}

void TileAttention::Fill(size_t row, const AttentionInputs& inputs,
                         const Pass& pass) {
  const ActiveRow& active = pass.wave.rows()[row];
  RowTiles& tiles = rows_[active.index];
  if (!tiles.keys.defined()) {
    const std::vector<int64_t> sizes = {
        spec_.num_kv_heads, TileCount(active.token_count()) * kTileLines,
        spec_.head_dim};
    tiles.keys = at::zeros(sizes, inputs.keys.options());
    tiles.values = at::zeros(sizes, inputs.values.options());
  }
  const int64_t begin = pass.wave.layout().rows[row].begin;
  const std::vector<int64_t> keys =
      CopyToHeads(inputs.keys, begin, active.token_count(), tiles.keys);
  const std::vector<int64_t> values =
      CopyToHeads(inputs.values, begin, active.token_count(), tiles.values);
  tiles.not_finite.clear();
  std::set_union(keys.begin(), keys.end(), values.begin(), values.end(),
                 std::back_inserter(tiles.not_finite));
}

void TileAttention::AttendRow(size_t row, const AttentionInputs& inputs,
                              const Pass& pass, at::Tensor& out) {
  const ActiveRow& active = pass.wave.rows()[row];
  const at::Tensor row_queries = inputs.queries.narrow(
      0, pass.wave.layout().rows[row].begin, active.token_count());
  const TokenLayout::Row& needed = pass.wave.tail().rows[row];
  for (int64_t index = 0; index < TileCount(active.token_count()); ++index) {
    const PatternBlock block = BlockOf(active, index);
    const bool needs = HasPositionIn(needed, index);
    const bool shows = WantsPattern(block, pass);
    if (!needs && !shows) continue;
    const AttentionTile tile = MakeTile(active, row_queries, index);
    const bool eager = attention_ == ForwardAttention::kEager;
    at::Tensor probabilities;
    if (shows || eager) probabilities = Eager(tile, block, pass);
    if (!needs) continue;
    const at::Tensor mixed = eager ? Mix(tile, probabilities) : Sdpa(tile);
    ForStretches(
        needed, index, [&](int64_t position, int64_t line, int64_t count) {
          CopyLines(mixed.narrow(0, position - block.first_query, count),
                    out.narrow(0, line, count));
        });
  }
}

AttentionTile TileAttention::MakeTile(const ActiveRow& row,
                                      const at::Tensor& row_queries,
                                      int64_t index) {
  const int64_t first = index * kTileLines;
  const int64_t query_count = std::min(kTileLines, row.token_count() - first);
  const int64_t key_count = first + kTileLines;
  RowTiles& tiles = rows_[row.index];
  AttentionTile tile{.queries = row_queries.narrow(0, first, query_count),
                     .keys = tiles.keys.narrow(1, 0, key_count),
                     .values = tiles.values.narrow(1, 0, key_count),
                     .mask = MaskOf(row, index)};
  if (query_count < kTileLines) {
    tile.queries = PaddedLines(tile.queries, kTileLines);
  }
  for (const int64_t key : tiles.not_finite) {
    if (key < key_count) tile.not_finite.push_back(key);
  }
  return tile;
}

const TileMask& TileAttention::MaskOf(const ActiveRow& row, int64_t index) {
  std::map<int64_t, TileMask>& masks = rows_[row.index].masks;
  const auto found = masks.find(index);
  if (found != masks.end()) return found->second;
  const Visibility visibility(spec_.sliding_window, row.ask->hidden_positions);
  TileMask mask = visibility.hidden().empty()
                      ? band_->Tile(index)
                      : MakeTileMask(visibility, index,
                                     rows_[row.index].keys.scalar_type());
  return masks.emplace(index, std::move(mask)).first->second;
}

}  // namespace phitap
