// The checksum of a tensor on the wire: XXH3-64 of its bytes.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_BASE_TENSOR_HASH_H_
#define PHITAP_SERVER_BASE_TENSOR_HASH_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/types/span.h"

struct XXH3_state_s;

namespace phitap {

// Takes the bytes as they come, with the widest vectors that the processor has.
// Thread-compatible.
class TensorHash {
 public:
  TensorHash();

  void Add(absl::Span<const std::byte> bytes);
  // Of all bytes since the last Reset.
  uint64_t Value() const;
  // Begins another tensor.
  void Reset();

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };

  std::unique_ptr<XXH3_state_s, Free> state_;
};

// The checksum of bytes that are all there.
uint64_t HashTensor(absl::Span<const std::byte> bytes);

}  // namespace phitap

#endif  // PHITAP_SERVER_BASE_TENSOR_HASH_H_
