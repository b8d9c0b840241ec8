// Keys and values of one run's positions so far, so that the next tokens need
// not compute them again.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_MODEL_KEY_VALUE_CACHE_H_
#define PHITAP_SERVER_MODEL_KEY_VALUE_CACHE_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "server/model/key_tiles.h"
#include "server/spec/model_spec.h"

namespace phitap {

// Keys and values as transformers' cache has them.
struct CachedStates {
  at::Tensor keys;    // [1, KV, positions, E]
  at::Tensor values;  // [1, KV, positions, E]
  // Positions that it was given; under a window it keeps the last ones.
  int64_t seen = 0;
};

// Filled by the forwards that it is given to (see ForwardRow::cache); one that
// has served numerics kCausal must not serve kTransformers before Clear, nor
// the other way round; nor any after a forward that failed or dropped its row.
// Not thread-safe.
class KeyValueCache {
 public:
  explicit KeyValueCache(const ModelSpec& spec);
  ~KeyValueCache();

  // Positions held.
  int64_t length() const { return length_; }
  // Bytes of its buffers. Without a sliding window they have room for up to a
  // quarter more positions than there are; with one, for window + 62 at most,
  // however long the run.
  int64_t size_bytes() const;
  // Forgets every position.
  void Clear();

  // What the numerics keep of a layer.
  KeyTiles& tiles(int layer) { return layers_.at(layer).tiles; }
  CachedStates& states(int layer) { return layers_.at(layer).states; }
  // The layer holds positions up to `length`. Called for one after another.
  void EndLayer(int layer, int64_t length);

 private:
  // One of the two is in use.
  struct Layer {
    KeyTiles tiles;
    CachedStates states;
  };
  std::vector<Layer> layers_;
  int64_t length_ = 0;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_MODEL_KEY_VALUE_CACHE_H_
