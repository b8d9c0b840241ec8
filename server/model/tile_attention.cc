// SPDX-License-Identifier: Apache-2.0
#include "server/model/tile_attention.h"

#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

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

// The row's queries [n, H, E] among zeros: [32, H, E].
at::Tensor WholeTile(const at::Tensor& queries, const TileQueries& place) {
  if (queries.size(0) == kTileLines) return queries;
  const at::Tensor whole = at::zeros(
      {kTileLines, queries.size(1), queries.size(2)}, queries.options());
  CopyLines(queries, whole.narrow(0, place.dummies_before, place.count()));
  return whole;
}

// Queries of a row that are mixed in one pass over their keys.
class Stretches {
 public:
  // `stretch` is of a tile with these keys; tiles come in order.
  void Add(const AttentionTile& tile, QueryStretch stretch) {
    // Tiles begin at the same key unless a window moves on.
    if (keys_.defined() &&
        keys_.const_data_ptr() != tile.keys.const_data_ptr()) {
      Mix();
    }
    keys_ = tile.keys;
    values_ = tile.values;
    stretches_.push_back(std::move(stretch));
  }
  void Mix() {
    if (!stretches_.empty()) SdpaOfStretches(keys_, values_, stretches_);
    stretches_.clear();
  }

 private:
  at::Tensor keys_;
  at::Tensor values_;
  std::vector<QueryStretch> stretches_;
};

// The queries of the tile that the tail has, to be mixed straight into `out`.
void AddStretches(const AttentionTile& tile, const TileQueries& place,
                  int64_t index, const TokenLayout::Row& needed,
                  const at::Tensor& out, Stretches& stretches) {
  ForStretches(
      needed, index, [&](int64_t position, int64_t line, int64_t count) {
        stretches.Add(tile, {.queries = tile.queries.narrow(
                                 0, position - place.begin, count),
                             .invisible = tile.mask.invisible.narrow(
                                 0, position - index * kTileLines, count),
                             .out = out.narrow(0, line, count)});
      });
}

}  // namespace

at::Tensor TileAttention::Attend(const AttentionInputs& inputs,
                                 const Pass& pass) {
  const Wave& wave = pass.wave;
  if (!band_) {
    band_.emplace(spec_.sliding_window, TileCount(wave.last_end()),
                  inputs.queries.scalar_type());
  }
  at::Tensor out =
      at::empty({wave.tail_line_count(), spec_.num_heads, spec_.head_dim},
                inputs.queries.options());
  const int64_t filled = LineCount(wave.tail());
  out.narrow(0, filled, out.size(0) - filled).zero_();
  WaveKeys::LayerKeys keys(keys_, inputs, pass);
  for (const bool has_parent : {false, true}) {
    for (size_t i = 0; i < wave.rows().size(); ++i) {
      const ActiveRow& row = wave.rows()[i];
      if (wave.tree().HasParent(row.index) != has_parent) continue;
      const int64_t begin = wave.layout().rows[i].begin;
      AttendRow({.row = row,
                 .queries = inputs.queries.narrow(0, begin, row.token_count()),
                 .keys = keys.Of(row),
                 .needed = wave.tail().rows[i]},
                pass, out);
    }
  }
  keys.EndCaches();
  return out;
}

void TileAttention::PassOver(const Pass& pass) {
  WaveKeys::LayerKeys(keys_, {}, pass).EndCaches();
}

void TileAttention::EndLayer(const Wave& wave) {
  keys_.Forget(wave);
  std::set<int> under_way;
  for (const ActiveRow& row : wave.rows()) under_way.insert(row.index);
  std::erase_if(masks_, [&](const auto& of_row) {
    return !under_way.contains(of_row.first);
  });
}

void TileAttention::AttendRow(const RowAttention& attention, const Pass& pass,
                              at::Tensor& out) {
  const auto& [row, queries, keys, needed] = attention;
  const Visibility visibility = VisibilityOf(row, spec_);
  const bool eager = attention_ == ForwardAttention::kEager;
  const bool stretches_mix = !eager && HasStretchSdpa(queries.scalar_type());
  Stretches stretches;
  const int64_t tile_count = TileCount(row.end_position());
  for (int64_t index = row.first_position() / kTileLines; index < tile_count;
       ++index) {
    const TilePattern pattern(row, index, visibility.FirstKeyOfTile(index));
    bool needs = HasPositionIn(needed, index);
    const bool shows = pattern.IsWanted(pass);
    if (!needs && !shows) continue;
    AttentionTile tile = MakeTile(attention, index);
    if (needs && stretches_mix && tile.not_finite.empty()) {
      AddStretches(tile, TileQueries(row, index), index, needed, out,
                   stretches);
      needs = false;
    }
    if (!needs && !shows) continue;
    tile.queries = WholeTile(tile.queries, TileQueries(row, index));
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
  stretches.Mix();
}

AttentionTile TileAttention::MakeTile(const RowAttention& attention,
                                      int64_t index) {
  const auto& [row, row_queries, keys, needed] = attention;
  const TileQueries queries(row, index);
  TileKeys of = keys.Of(index, VisibilityOf(row, spec_));
  return {.queries = row_queries.narrow(0, queries.begin - row.first_position(),
                                        queries.count()),
          .keys = std::move(of.keys),
          .values = std::move(of.values),
          .mask = MaskOf(row, index, row_queries.scalar_type()),
          .not_finite = std::move(of.not_finite)};
}

const TileMask& TileAttention::MaskOf(const ActiveRow& row, int64_t index,
                                      at::ScalarType dtype) {
  Masks& masks = masks_[row.index];
  const auto found = masks.find(index);
  if (found != masks.end()) return found->second;
  const Visibility visibility = VisibilityOf(row, spec_);
  TileMask mask = visibility.hidden().empty()
                      ? band_->Tile(index)
                      : MakeTileMask(visibility, index, dtype);
  return masks.emplace(index, std::move(mask)).first->second;
}

}  // namespace phitap
