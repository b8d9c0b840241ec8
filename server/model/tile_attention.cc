// SPDX-License-Identifier: Apache-2.0
#include "server/model/tile_attention.h"

#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "server/model/key_value_cache.h"
#include "server/model/line_kernels.h"

namespace phitap {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

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

// The row's queries in the tile, of positions [begin, end).
struct TileQueries {
  TileQueries(const ActiveRow& row, int64_t tile)
      : begin(std::max(row.first_position(), tile * kTileLines)),
        end(std::min(row.end_position(), (tile + 1) * kTileLines)),
        dummies_before(begin - tile * kTileLines) {}
  int64_t count() const { return end - begin; }

  const int64_t begin;
  const int64_t end;
  const int64_t dummies_before;
};

// What hooks see of a tile: its queries from the row's first on, all keys.
class TilePattern {
 public:
  TilePattern(const ActiveRow& row, int64_t tile, int64_t first_key)
      : queries_(row, tile), first_key_(first_key), row_(row.index) {}

  PatternBlock block() const {
    return {.row = row_,
            .first_query = queries_.begin,
            .query_count = queries_.count()};
  }

  bool IsWanted(const Pass& pass) const {
    return pass.WantsPattern(Hook::kAttentionScores, block()) ||
           pass.WantsPattern(Hook::kAttentionProbabilities, block());
  }

  // [H, 32, keys of the tile]; `unseen` stands for keys before the tile's.
  at::Tensor Show(Hook hook, at::Tensor value, double unseen,
                  const Pass& pass) const {
    if (!pass.WantsPattern(hook, block())) return value;
    const int64_t before = queries_.dummies_before;
    at::Tensor shown = value.narrow(1, before, kTileLines - before);
    if (first_key_ > 0) {
      shown = at::constant_pad_nd(shown, {first_key_, 0}, unseen);
    }
    const at::Tensor returned = pass.ShowPattern(hook, block(), shown);
    if (returned.is_same(shown)) return value;
    if (before == 0 && first_key_ == 0) return returned;
    at::Tensor whole = value.clone(at::MemoryFormat::Contiguous);
    whole.narrow(1, before, kTileLines - before)
        .copy_(returned.narrow(2, first_key_, whole.size(2)));
    return whole;
  }

  // Softmax by hand, each step shown.
  at::Tensor Probabilities(const AttentionTile& tile, const Pass& pass) const {
    const at::Tensor scores =
        Show(Hook::kAttentionScores, Scores(tile), kMinusInfinity, pass);
    return Show(Hook::kAttentionProbabilities,
                phitap::Probabilities(tile, scores), 0.0, pass);
  }

 private:
  const TileQueries queries_;
  const int64_t first_key_;
  const int row_;
};

}  // namespace

at::Tensor TileAttention::Attend(const AttentionInputs& inputs,
                                 const Pass& pass) {
  if (!band_) {
    int64_t last_end = 0;
    for (const ActiveRow& row : pass.wave.rows()) {
      last_end = std::max(last_end, row.end_position());
    }
    band_.emplace(spec_.sliding_window, TileCount(last_end),
                  inputs.queries.scalar_type());
  }
  at::Tensor out =
      at::empty({pass.wave.tail_line_count(), spec_.num_heads, spec_.head_dim},
                inputs.queries.options());
  const int64_t filled = LineCount(pass.wave.tail());
  out.narrow(0, filled, out.size(0) - filled).zero_();
  for (size_t row = 0; row < pass.wave.rows().size(); ++row) {
    AttendRow(row, inputs, pass, out);
  }
  return out;
}

void TileAttention::AttendRow(size_t row, const AttentionInputs& inputs,
                              const Pass& pass, at::Tensor& out) {
  const ActiveRow& active = pass.wave.rows()[row];
  const int64_t first_line = pass.wave.layout().rows[row].begin;
  const Visibility visibility = VisibilityOf(active);
  KeyTiles& keys = KeysOf(active, pass.layer);
  keys.Put(inputs.keys, inputs.values,
           {.first_line = first_line,
            .first_position = active.first_position(),
            .count = active.token_count()},
           visibility);
  const at::Tensor row_queries =
      inputs.queries.narrow(0, first_line, active.token_count());
  const TokenLayout::Row& needed = pass.wave.tail().rows[row];
  const int64_t tile_count = TileCount(active.end_position());
  for (int64_t index = active.first_position() / kTileLines; index < tile_count;
       ++index) {
    const TilePattern pattern(active, index, visibility.FirstKeyOfTile(index));
    const bool needs = HasPositionIn(needed, index);
    const bool shows = pattern.IsWanted(pass);
    if (!needs && !shows) continue;
    const AttentionTile tile = MakeTile(active, row_queries, index, keys);
    const bool eager = attention_ == ForwardAttention::kEager;
    at::Tensor probabilities;
    if (shows || eager) probabilities = pattern.Probabilities(tile, pass);
    if (!needs) continue;
    const at::Tensor mixed = eager ? Mix(tile, probabilities) : Sdpa(tile);
    ForStretches(
        needed, index, [&](int64_t position, int64_t line, int64_t count) {
          CopyLines(mixed.narrow(0, position - index * kTileLines, count),
                    out.narrow(0, line, count));
        });
  }
  if (active.ask->cache == nullptr) return;
  keys.Trim(visibility);
  active.ask->cache->EndLayer(pass.layer, active.end_position());
}

KeyTiles& TileAttention::KeysOf(const ActiveRow& row, int layer) {
  if (row.ask->cache != nullptr) return row.ask->cache->tiles(layer);
  return rows_[row.index].own;
}

AttentionTile TileAttention::MakeTile(const ActiveRow& row,
                                      const at::Tensor& row_queries,
                                      int64_t index, const KeyTiles& keys) {
  const TileQueries queries(row, index);
  TileKeys of = keys.Of(index, VisibilityOf(row));
  AttentionTile tile{
      .queries = row_queries.narrow(0, queries.begin - row.first_position(),
                                    queries.count()),
      .keys = std::move(of.keys),
      .values = std::move(of.values),
      .mask = MaskOf(row, index, row_queries.scalar_type()),
      .not_finite = std::move(of.not_finite)};
  if (queries.count() == kTileLines) return tile;
  const at::Tensor padded = at::zeros(
      {kTileLines, spec_.num_heads, spec_.head_dim}, row_queries.options());
  CopyLines(tile.queries,
            padded.narrow(0, queries.dummies_before, queries.count()));
  tile.queries = padded;
  return tile;
}

const TileMask& TileAttention::MaskOf(const ActiveRow& row, int64_t index,
                                      at::ScalarType dtype) {
  std::map<int64_t, TileMask>& masks = rows_[row.index].masks;
  const auto found = masks.find(index);
  if (found != masks.end()) return found->second;
  const Visibility visibility = VisibilityOf(row);
  TileMask mask = visibility.hidden().empty()
                      ? band_->Tile(index)
                      : MakeTileMask(visibility, index, dtype);
  return masks.emplace(index, std::move(mask)).first->second;
}

Visibility TileAttention::VisibilityOf(const ActiveRow& row) const {
  return Visibility(spec_.sliding_window, row.ask->hidden_positions);
}

}  // namespace phitap
