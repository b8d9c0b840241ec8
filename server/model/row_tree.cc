// SPDX-License-Identifier: Apache-2.0
#include "server/model/row_tree.h"

#include <c10/util/Exception.h>

#include <algorithm>

#include "server/model/row_states.h"

namespace phitap {

int64_t RowTree::EndOf(int index) const {
  const ForwardRow& row = rows_[index];
  return row.first_position + static_cast<int64_t>(row.ids.size());
}

bool RowTree::HasParent(int index) const {
  return rows_[index].parent_row >= 0 || rows_[index].parent_states != nullptr;
}

int RowTree::RootOf(int index) const {
  while (rows_[index].parent_row >= 0) index = rows_[index].parent_row;
  return rows_[index].parent_states == nullptr ? index : kKeptRow;
}

const RowStates* RowTree::KeptRootOf(int index) const {
  while (rows_[index].parent_row >= 0) index = rows_[index].parent_row;
  return rows_[index].parent_states;
}

std::vector<OwnedStretch> RowTree::OwnersOf(int index, int layer) const {
  // From the end of the row back to position 0, up the tree.
  std::vector<OwnedStretch> owners;
  int64_t end = EndOf(index);
  for (int at = index; end > 0;) {
    const ForwardRow& row = rows_[at];
    const int64_t begin = HasParent(at) ? row.first_position : 0;
    if (layer >= row.first_layer && begin < end) {
      owners.push_back({.owner = at, .begin = begin, .end = end});
      end = begin;
    }
    if (row.parent_row < 0) break;
    at = row.parent_row;
  }
  if (end > 0) owners.push_back({.owner = kKeptRow, .begin = 0, .end = end});
  std::reverse(owners.begin(), owners.end());
  return owners;
}

void RowTree::Check() const {
  for (int i = 0; i < static_cast<int>(rows_.size()); ++i) {
    const ForwardRow& row = rows_[i];
    TORCH_CHECK(0 <= row.first_layer && row.first_layer <= row.layer_count,
                "row ", i, " begins at layer ", row.first_layer, " of ",
                row.layer_count);
    TORCH_CHECK(
        row.states == nullptr || (!HasParent(i) && row.first_position == 0),
        "row ", i, " does not compute all that it is to keep");
    if (HasParent(i)) {
      CheckParent(i);
      if (KeptRootOf(i) != nullptr) CheckKept(i);
    } else {
      TORCH_CHECK(row.first_layer == 0, "row ", i, " has no parent");
    }
  }
}

void RowTree::CheckParent(int index) const {
  const ForwardRow& row = rows_[index];
  TORCH_CHECK(row.parent_row < index &&
                  (row.parent_row < 0 || row.parent_states == nullptr),
              "row ", index, " has no one parent before it");
  if (row.parent_row < 0) return;
  const ForwardRow& parent = rows_[row.parent_row];
  TORCH_CHECK(HasParent(row.parent_row) || parent.first_position == 0,
              "the parent of row ", index, " goes on from a cache");
  const int64_t taken = row.first_layer > 0 ? EndOf(index) : row.first_position;
  TORCH_CHECK(taken <= EndOf(row.parent_row), "the parent of row ", index,
              " ends at position ", EndOf(row.parent_row));
  const int needed = row.first_position > 0 ? row.layer_count : row.first_layer;
  TORCH_CHECK(parent.layer_count >= needed, "the parent of row ", index,
              " ends at layer ", parent.layer_count);
}

void RowTree::CheckKept(int index) const {
  const ForwardRow& row = rows_[index];
  const RowStates& kept = *KeptRootOf(index);
  const int first = row.cache == nullptr ? row.first_layer : 0;
  for (int layer = first; layer < row.layer_count; ++layer) {
    const OwnedStretch lowest = OwnersOf(index, layer).front();
    if (lowest.owner != kKeptRow) continue;
    TORCH_CHECK(kept.keys(layer).end() >= lowest.end, "row ", index,
                " needs kept keys of layer ", layer, " up to position ",
                lowest.end, ", there are ", kept.keys(layer).end());
  }
}

}  // namespace phitap
