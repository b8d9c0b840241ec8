// The header of a safetensors file: a length, then JSON that says where each
// tensor lies (github.com/huggingface/safetensors, "Format").
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_CHECKPOINT_SAFETENSORS_HEADER_H_
#define PHITAP_SERVER_CHECKPOINT_SAFETENSORS_HEADER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/base/dtype.h"

namespace phitap {

struct StoredTensor {
  std::string name;
  // As the format spells it: "BF16", "F8_E4M3", ….
  std::string stored_dtype;
  // None where phitap has no such element type.
  std::optional<DType> dtype;
  std::vector<int64_t> shape;
  // From the start of the file.
  int64_t offset_bytes = 0;
  int64_t size_bytes = 0;
};

// The tensors of a whole file, by offset. `source` names the file in errors.
// DATA_LOSS unless every tensor's bytes are as many as its shape and element
// type need, and all together cover what follows the header exactly: no
// overlap, no hole, nothing after the last.
absl::StatusOr<std::vector<StoredTensor>> ParseSafetensorsHeader(
    absl::Span<const std::byte> file, absl::string_view source);

}  // namespace phitap

#endif  // PHITAP_SERVER_CHECKPOINT_SAFETENSORS_HEADER_H_
