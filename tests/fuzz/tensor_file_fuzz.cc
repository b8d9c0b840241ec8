// A file of the state directory: one kept tensor.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string>

#include "server/tensors/tensor_file.h"
#include "tests/fuzz/expect.h"
#include "tests/fuzz/file_parts.h"

namespace phitap {
namespace {

// Touches every byte: they are mapped.
void ExpectWhole(const NamedTensor& tensor) {
  Expect(static_cast<int64_t>(tensor.value.bytes.size()) ==
             ElementCount(tensor.value.shape) * SizeInBytes(tensor.value.dtype),
         "as many bytes as the shape has");
  static volatile unsigned sum = 0;
  for (const std::byte byte : tensor.value.bytes) {
    sum = sum + std::to_integer<unsigned>(byte);
  }
  Expect(TensorFileName(tensor.name).front() != '.', "a file that is read");
}

void ReadBack(const TempFolder& folder, const NamedTensor& tensor) {
  const std::string path = folder.File("again.safetensors");
  Expect(WriteTensorFile(path, tensor).ok(), "what was read can be written");
  const auto again = ReadTensorFile(path);
  Expect(again.ok(), "what was written can be read");
  Expect(again->name == tensor.name &&
             again->value.bytes == tensor.value.bytes &&
             again->value.shape == tensor.value.shape,
         "and is the same");
}

void Read(const std::string& file) {
  const TempFolder folder;
  folder.Write("a.safetensors", file);
  const auto tensor = ReadTensorFile(folder.File("a.safetensors"));
  ExpectRefusal(tensor.status());
  if (!tensor.ok()) return;
  ExpectWhole(*tensor);
  ReadBack(folder, *tensor);
}

}  // namespace
}  // namespace phitap

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* input, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(input), size);
  phitap::Read(bytes);
  phitap::Read(phitap::WithData(bytes));
  return 0;
}
