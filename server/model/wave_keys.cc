// SPDX-License-Identifier: Apache-2.0
#include "server/model/wave_keys.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <set>
#include <vector>

#include "server/model/key_value_cache.h"
#include "server/model/row_states.h"

namespace phitap {

void WaveKeys::FindTrees(const Wave& wave) {
  if (!trees_.empty()) return;
  const RowTree& tree = wave.tree();
  for (const auto* const rows : {&wave.rows(), &wave.waiting()}) {
    for (const ActiveRow& row : *rows) {
      Tree& of = trees_[KeyOf(tree, row.index)];
      if (tree.HasParent(row.index)) {
        of.first_branch = std::min(of.first_branch, row.first_position());
      }
      const bool has_own =
          row.ask->cache != nullptr || row.ask->states != nullptr;
      if (!has_own) of.end = std::max(of.end, row.end_position());
    }
  }
}

void WaveKeys::Forget(const Wave& wave) {
  std::set<TreeKey> needed;
  for (const ActiveRow& row : wave.rows()) {
    needed.insert(KeyOf(wave.tree(), row.index));
  }
  for (auto& [key, tree] : trees_) {
    if (!needed.contains(key)) tree.shared = {};
  }
}

WaveKeys::LayerKeys::LayerKeys(WaveKeys& keys, const AttentionInputs& inputs,
                               const Pass& pass)
    : keys_(keys), inputs_(inputs), wave_(pass.wave), layer_(pass.layer) {
  keys_.FindTrees(wave_);
  for (const TokenLayout::Row& row : wave_.layout().rows) {
    first_lines_[row.row] = row.begin;
  }
  for (const ActiveRow& row : wave_.rows()) Fill(row);
  for (const ActiveRow& row : wave_.waiting()) Fill(row);
}

void WaveKeys::LayerKeys::Fill(const ActiveRow& row) {
  if (row.ask->cache != nullptr) FillCache(row);
  if (row.ask->states == nullptr) return;
  row.ask->states->keys(layer_).Put(
      inputs_.keys, inputs_.values,
      {.first_line = first_lines_.at(row.index), .count = row.token_count()},
      VisibilityOf(row, keys_.spec_));
}

void WaveKeys::LayerKeys::FillCache(const ActiveRow& row) {
  KeyTiles& tiles = row.ask->cache->tiles(layer_);
  const Visibility visibility = VisibilityOf(row, keys_.spec_);
  const auto put = [&](const KeyLines& lines, int64_t begin, int64_t end) {
    tiles.Put(lines.keys, lines.values, lines.Range(begin, end), visibility);
  };
  const RowTree& tree = wave_.tree();
  if (!tree.HasParent(row.index)) {
    return put(LinesOfOwner(row.index, row.index), row.first_position(),
               row.end_position());
  }
  for (const OwnedStretch& part : tree.OwnersOf(row.index, layer_)) {
    const KeyLines lines = LinesOfOwner(part.owner, row.index);
    tiles.Reserve(row.end_position(), lines.keys);
    put(lines, part.begin, part.end);
  }
}

KeyLines WaveKeys::LayerKeys::LinesOfOwner(int owner, int of_row) const {
  if (owner == kKeptRow) {
    return wave_.tree().KeptRootOf(of_row)->keys(layer_).Lines();
  }
  const auto found = first_lines_.find(owner);
  TORCH_CHECK(found != first_lines_.end(), "row ", owner, " has left, row ",
              of_row, " needs its keys");
  return {.keys = inputs_.keys,
          .values = inputs_.values,
          .first_line = found->second,
          .first_position = wave_.tree().row(owner).first_position};
}

const KeyTiles& WaveKeys::LayerKeys::Of(const ActiveRow& row) {
  if (row.ask->cache != nullptr) return row.ask->cache->tiles(layer_);
  if (row.ask->states != nullptr) return row.ask->states->keys(layer_);
  const int64_t from = VisibilityOf(row, keys_.spec_)
                           .FirstKeyOfTile(row.first_position() / kTileLines);
  return BoardOf(row).Show(
      wave_.tree().OwnersOf(row.index, layer_), from,
      [&](int owner) { return LinesOfOwner(owner, row.index); });
}

KeyBoard& WaveKeys::LayerKeys::BoardOf(const ActiveRow& row) {
  const TreeKey key = KeyOf(wave_.tree(), row.index);
  std::unique_ptr<KeyBoard>& board = boards_[key];
  if (board != nullptr) return *board;
  Tree& tree = keys_.trees_.at(key);
  const KeyTiles* const kept = LastingTiles(key);
  if (kept != nullptr && kept->room_end() >= tree.end) {
    board = std::make_unique<KeyBoard>(
        *kept, OwnedStretch{.owner = key.first, .begin = 0, .end = kept->end()},
        KeyBoard::Lent{.begin = tree.first_branch, .end = tree.end});
  } else {
    tree.shared.Reserve(tree.end, inputs_.keys);
    board = std::make_unique<KeyBoard>(tree.shared);
  }
  return *board;
}

const KeyTiles* WaveKeys::LayerKeys::LastingTiles(const TreeKey& key) const {
  const auto [root, states] = key;
  if (states != nullptr) return &states->keys(layer_);
  if (!first_lines_.contains(root)) return nullptr;
  const ForwardRow& row = wave_.tree().row(root);
  if (row.states != nullptr) return &row.states->keys(layer_);
  if (row.cache != nullptr) return &row.cache->tiles(layer_);
  return nullptr;
}

void WaveKeys::LayerKeys::EndCaches() {
  boards_.clear();
  for (const auto* const rows : {&wave_.rows(), &wave_.waiting()}) {
    for (const ActiveRow& row : *rows) {
      KeyValueCache* const cache = row.ask->cache;
      if (cache == nullptr) continue;
      cache->tiles(layer_).Trim(VisibilityOf(row, keys_.spec_));
      cache->EndLayer(layer_, row.end_position());
    }
  }
}

}  // namespace phitap
