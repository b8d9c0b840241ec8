// The keys and values of a wave's rows, layer after layer: where each row finds
// those that it sees, and what caches and states are left.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_MODEL_WAVE_KEYS_H_
#define PHITAP_SERVER_MODEL_WAVE_KEYS_H_

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include "server/model/arithmetic.h"
#include "server/model/key_board.h"
#include "server/model/key_tiles.h"
#include "server/model/pass.h"
#include "server/model/row_tree.h"
#include "server/model/visibility.h"
#include "server/model/wave.h"
#include "server/spec/model_spec.h"

namespace phitap {

// Serves the layers of one forward in turn; not thread-safe.
class WaveKeys {
  // Rows that have one root: its index, or the states that it has left.
  using TreeKey = std::pair<int, const RowStates*>;

 public:
  explicit WaveKeys(const ModelSpec& spec) : spec_(spec) {}

  // One layer. Destroyed, it leaves every row's keys as they are to stay.
  class LayerKeys {
   public:
    // `inputs` has a line for each of the wave's. Rows' caches and states take
    // what is theirs.
    LayerKeys(WaveKeys& keys, const AttentionInputs& inputs, const Pass& pass);

    // What the row sees, until the next call. Rows without a parent are best
    // asked for first.
    const KeyTiles& Of(const ActiveRow& row);

    // After the last row: caches drop what no later query sees.
    void EndCaches();

   private:
    void Fill(const ActiveRow& row);
    void FillCache(const ActiveRow& row);
    KeyBoard& BoardOf(const ActiveRow& row);
    // What the owner, under way or kept, has of the layer.
    KeyLines LinesOfOwner(int owner, int of_row) const;
    // Those of the tree's root that outlast the layer; null where none do.
    const KeyTiles* LastingTiles(const TreeKey& key) const;

    WaveKeys& keys_;
    const AttentionInputs& inputs_;
    const Wave& wave_;
    const int layer_;
    std::map<int, int64_t> first_lines_;  // of the rows under way, by index
    std::map<TreeKey, std::unique_ptr<KeyBoard>> boards_;
  };

  // Gives back what rows held that the wave no longer has.
  void Forget(const Wave& wave);

 private:
  struct Tree {
    // The first position of a row that has a parent.
    int64_t first_branch = std::numeric_limits<int64_t>::max();
    // After the last of rows that have neither cache nor states, and what they
    // share; each layer fills it anew.
    int64_t end = 0;
    KeyTiles shared;
  };

  static TreeKey KeyOf(const RowTree& tree, int row) {
    return {tree.RootOf(row), tree.KeptRootOf(row)};
  }
  void FindTrees(const Wave& wave);

  const ModelSpec& spec_;
  std::map<TreeKey, Tree> trees_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_MODEL_WAVE_KEYS_H_
