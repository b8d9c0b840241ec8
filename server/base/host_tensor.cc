#include "server/base/host_tensor.h"

#include <utility>

namespace phitap {

int64_t ElementCount(absl::Span<const int64_t> shape) {
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  return count;
}

HostTensor CopyOf(DType dtype, std::vector<int64_t> shape,
                  absl::Span<const std::byte> bytes) {
  auto owned = std::make_shared<const std::vector<std::byte>>(bytes.begin(),
                                                              bytes.end());
  return {.dtype = dtype,
          .shape = std::move(shape),
          .bytes = absl::MakeConstSpan(*owned),
          .owner = owned};
}

}  // namespace phitap
