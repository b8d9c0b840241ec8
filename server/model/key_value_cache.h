// Keys and values of one run's positions so far, so that the next tokens need
// not compute them again.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_MODEL_KEY_VALUE_CACHE_H_
#define PHITAP_SERVER_MODEL_KEY_VALUE_CACHE_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "server/spec/model_spec.h"

namespace phitap {

// Filled by the forwards that it is given to (see ForwardRow::cache); one that
// has served numerics kCausal must not serve kTransformers before Clear, nor
// the other way round. Not thread-safe.
class KeyValueCache {
 public:
  explicit KeyValueCache(const ModelSpec& spec);
  ~KeyValueCache();

  // Positions held.
  int64_t length() const { return length_; }
  // Bytes of its buffers.
  int64_t size_bytes() const;
  // Forgets every position.
  void Clear();

 private:
  int64_t length_ = 0;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_MODEL_KEY_VALUE_CACHE_H_
