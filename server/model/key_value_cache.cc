// SPDX-License-Identifier: Apache-2.0
#include "server/model/key_value_cache.h"

#include <cstddef>

namespace phitap {

KeyValueCache::KeyValueCache(const ModelSpec& spec)
    : layers_(static_cast<size_t>(spec.num_layers)) {}

KeyValueCache::~KeyValueCache() = default;

int64_t KeyValueCache::size_bytes() const {
  int64_t bytes = 0;
  for (const Layer& layer : layers_) {
    bytes += layer.tiles.size_bytes();
    for (const at::Tensor* states :
         {&layer.states.keys, &layer.states.values}) {
      if (states->defined()) {
        bytes += static_cast<int64_t>(states->storage().nbytes());
      }
    }
  }
  return bytes;
}

void KeyValueCache::Clear() {
  layers_.assign(layers_.size(), Layer());
  length_ = 0;
}

void KeyValueCache::EndLayer(int layer, int64_t length) {
  // Layers are filled in order: the last one's positions are in all.
  if (layer + 1 == static_cast<int>(layers_.size())) length_ = length;
}

}  // namespace phitap
