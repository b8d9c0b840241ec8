// One safetensors file: its tensors by name, in place.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_CHECKPOINT_SAFETENSORS_H_
#define PHITAP_SERVER_CHECKPOINT_SAFETENSORS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/base/host_tensor.h"
#include "server/checkpoint/file_bytes.h"
#include "server/checkpoint/safetensors_header.h"

namespace phitap {

// Immutable, hence thread-safe.
class SafetensorsFile {
 public:
  // Reads the header and, with WeightStorage::kCopy, the rest. Errors name the
  // file by its last component: those of FileBytes::Open and
  // ParseSafetensorsHeader.
  static absl::StatusOr<SafetensorsFile> Open(absl::string_view path,
                                              WeightStorage storage);

  const std::string& name() const { return name_; }
  // By offset.
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  // Null where the file has no such tensor.
  const StoredTensor* Find(absl::string_view name) const;

  // The bytes of a tensor of this file whose element type phitap has. They lie
  // in the file, which the tensor keeps open; only those not aligned to their
  // element are copied.
  HostTensor Tensor(const StoredTensor& tensor) const;

 private:
  SafetensorsFile() = default;

  std::string name_;
  std::shared_ptr<const FileBytes> file_;
  std::vector<StoredTensor> tensors_;
  absl::flat_hash_map<std::string, size_t> index_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_CHECKPOINT_SAFETENSORS_H_
