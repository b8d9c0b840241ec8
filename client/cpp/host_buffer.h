// Uninitialised memory for a tensor that is about to be received.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CPP_HOST_BUFFER_H_
#define PHITAP_CLIENT_CPP_HOST_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace phitap::client {

// Aligned to 64 bytes. Large buffers ask for huge pages: faulting 4 KiB pages
// in costs as much as copying into them.
class HostBuffer {
 public:
  // RESOURCE_EXHAUSTED where the memory is not to be had.
  static absl::StatusOr<HostBuffer> Allocate(int64_t size_bytes);

  absl::Span<std::byte> bytes() const {
    return absl::MakeSpan(memory_.get(), size_bytes_);
  }
  std::shared_ptr<const void> owner() const { return memory_; }

 private:
  HostBuffer(std::shared_ptr<std::byte> memory, size_t size_bytes)
      : memory_(std::move(memory)), size_bytes_(size_bytes) {}

  std::shared_ptr<std::byte> memory_;
  size_t size_bytes_;
};

}  // namespace phitap::client

#endif  // PHITAP_CLIENT_CPP_HOST_BUFFER_H_
