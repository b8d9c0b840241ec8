// A safetensors header, as the bytes of the file or as its text.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string>
#include <vector>

#include "server/checkpoint/safetensors_header.h"
#include "tests/fuzz/expect.h"
#include "tests/fuzz/file_parts.h"

namespace phitap {
namespace {

// Every tensor lies in the file, one after the other and nothing between.
void ExpectCovered(const std::vector<StoredTensor>& tensors,
                   const std::string& file) {
  int64_t end = tensors.empty() ? static_cast<int64_t>(file.size())
                                : tensors.front().offset_bytes;
  Expect(end >= 8, "data begins behind the header");
  for (const StoredTensor& tensor : tensors) {
    Expect(tensor.offset_bytes == end, "no hole and no overlap");
    Expect(tensor.size_bytes >= 0, "sizes are not negative");
    end += tensor.size_bytes;
    int64_t count = 1;
    for (const int64_t size : tensor.shape) {
      Expect(size >= 0, "dimensions are not negative");
      Expect(!__builtin_mul_overflow(count, size, &count), "no overflow");
    }
    if (!tensor.dtype.has_value()) continue;
    Expect(tensor.size_bytes == count * SizeInBytes(*tensor.dtype),
           "as many bytes as the shape has");
  }
  Expect(end == static_cast<int64_t>(file.size()), "nothing behind the last");
}

void Parse(const std::string& file) {
  const auto tensors = ParseSafetensorsHeader(
      absl::MakeConstSpan(reinterpret_cast<const std::byte*>(file.data()),
                          file.size()),
      "fuzzed");
  ExpectRefusal(tensors.status());
  if (tensors.ok()) ExpectCovered(*tensors, file);
}

}  // namespace
}  // namespace phitap

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* input, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(input), size);
  phitap::Parse(bytes);
  phitap::Parse(phitap::WithData(bytes));
  return 0;
}
