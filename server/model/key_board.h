// The keys and values of one layer as one row of a tree after another sees
// them, on buffers that they share: what a row has in common with the one
// before it stays where it is.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_MODEL_KEY_BOARD_H_
#define PHITAP_SERVER_MODEL_KEY_BOARD_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "server/model/key_tiles.h"
#include "server/model/row_tree.h"

namespace phitap {

// What a row has computed in the layer, by its index in the forward.
using LinesOfOwner = absl::FunctionRef<KeyLines(int owner)>;

// Not thread-safe.
class KeyBoard {
 public:
  // On tiles whose lines are to be overwritten as need be.
  explicit KeyBoard(KeyTiles& tiles);

  // On tiles that hold `held` and must go on to: what is at positions [begin,
  // end) is put back in the end, the rest is not touched.
  struct Lent {
    int64_t begin = 0;
    int64_t end = 0;
  };
  KeyBoard(const KeyTiles& tiles, const OwnedStretch& held, const Lent& lent);
  ~KeyBoard();
  KeyBoard(const KeyBoard&) = delete;
  KeyBoard& operator=(const KeyBoard&) = delete;

  // Has the tiles hold what `owners` say from position `from` on. Positions
  // past their end may hold anything.
  const KeyTiles& Show(absl::Span<const OwnedStretch> owners, int64_t from,
                       LinesOfOwner lines_of);

 private:
  KeyTiles lent_;
  KeyTiles& tiles_;
  // Of each position that there is room for.
  std::vector<int> owners_;
  // Of lent tiles: whose they are, and what is put back.
  int held_owner_;
  Lent put_back_;
  KeyLines saved_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_MODEL_KEY_BOARD_H_
