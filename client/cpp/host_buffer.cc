#include "client/cpp/host_buffer.h"

#include <sys/mman.h>

#include <cstdlib>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace phitap::client {
namespace {

constexpr size_t kHugePageBytes = size_t{2} << 20;
constexpr size_t kAlignmentBytes = 64;

size_t RoundUp(size_t size, size_t multiple) {
  return (size + multiple - 1) / multiple * multiple;
}

}  // namespace

absl::StatusOr<HostBuffer> HostBuffer::Allocate(int64_t size_bytes) {
  const size_t size = static_cast<size_t>(size_bytes);
  const size_t alignment =
      size >= kHugePageBytes ? kHugePageBytes : kAlignmentBytes;
  const size_t rounded = RoundUp(size == 0 ? 1 : size, alignment);
  auto* memory =
      static_cast<std::byte*>(std::aligned_alloc(alignment, rounded));
  if (memory == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for a tensor of ", size_bytes, " bytes"));
  }
  // Only advice: a kernel without huge pages does without.
  if (alignment == kHugePageBytes) madvise(memory, rounded, MADV_HUGEPAGE);
  return HostBuffer(std::shared_ptr<std::byte>(memory, std::free), size);
}

}  // namespace phitap::client
