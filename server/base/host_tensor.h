// A tensor's bytes in host memory, whoever owns them: what crosses layers
// without libtorch. SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_BASE_HOST_TENSOR_H_
#define PHITAP_SERVER_BASE_HOST_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "server/base/dtype.h"

namespace phitap {

// Row-major, contiguous, little-endian. Copying shares the bytes.
// Thread-compatible; the bytes are never written after creation.
struct HostTensor {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  absl::Span<const std::byte> bytes;
  // Keeps `bytes` alive: a libtorch storage, a mapped file or a vector.
  std::shared_ptr<const void> owner;
};

// Product of the dimensions; 1 for a scalar.
int64_t ElementCount(absl::Span<const int64_t> shape);

// A tensor that owns a copy of `bytes`.
HostTensor CopyOf(DType dtype, std::vector<int64_t> shape,
                  absl::Span<const std::byte> bytes);

}  // namespace phitap

#endif  // PHITAP_SERVER_BASE_HOST_TENSOR_H_
