// SPDX-License-Identifier: Apache-2.0
#include "server/model/key_board.h"

#include <algorithm>

namespace phitap {
namespace {

// Of positions that hold nothing that any row has computed in the layer.
constexpr int kNobody = kKeptRow - 1;

at::Tensor CopyOf(const at::Tensor& lines, int64_t begin, int64_t end) {
  return lines.narrow(0, begin, end - begin)
      .clone(at::MemoryFormat::Contiguous);
}

// Calls `work(begin, end)` for the stretches of [from, to) in which owners are
// others than `owner`.
template <typename Work>
void ForOthers(const std::vector<int>& owners, int owner, int64_t from,
               int64_t to, const Work& work) {
  for (int64_t begin = from; begin < to;) {
    int64_t end = begin;
    const bool other = owners[begin] != owner;
    while (end < to && (owners[end] != owner) == other) ++end;
    if (other) work(begin, end);
    begin = end;
  }
}

}  // namespace

KeyBoard::KeyBoard(KeyTiles& tiles)
    : tiles_(tiles), owners_(tiles.room_end(), kNobody), held_owner_(kNobody) {}

KeyBoard::KeyBoard(const KeyTiles& tiles, const OwnedStretch& held,
                   const Lent& lent)
    : lent_(tiles),
      tiles_(lent_),
      owners_(lent_.room_end(), kNobody),
      held_owner_(held.owner),
      put_back_(lent) {
  std::fill(owners_.begin() + held.begin, owners_.begin() + held.end,
            held.owner);
  const KeyLines lines = lent_.Lines();
  saved_ = {.keys = CopyOf(lines.keys, lent.begin, lent.end),
            .values = CopyOf(lines.values, lent.begin, lent.end),
            .first_position = lent.begin};
}

KeyBoard::~KeyBoard() {
  if (saved_.keys.defined()) tiles_.Lay(saved_, put_back_.begin, put_back_.end);
}

const KeyTiles& KeyBoard::Show(absl::Span<const OwnedStretch> owners,
                               int64_t from, LinesOfOwner lines_of) {
  for (const OwnedStretch& wanted : owners) {
    const int64_t first = std::max(from, wanted.begin);
    ForOthers(owners_, wanted.owner, first, wanted.end,
              [&](int64_t begin, int64_t end) {
                tiles_.Lay(wanted.owner == held_owner_ ? saved_
                                                       : lines_of(wanted.owner),
                           begin, end);
              });
    if (first >= wanted.end) continue;
    std::fill(owners_.begin() + first, owners_.begin() + wanted.end,
              wanted.owner);
  }
  return tiles_;
}

}  // namespace phitap
