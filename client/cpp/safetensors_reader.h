// Reads tensors out of safetensors files.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CPP_SAFETENSORS_READER_H_
#define PHITAP_CLIENT_CPP_SAFETENSORS_READER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/base/host_tensor.h"

namespace phitap::client {

// The tensor of that name, in the memory of the mapped file; with an empty
// name the only one. NOT_FOUND where the file or the name does not exist, with
// the names that do; INVALID_ARGUMENT where the file is no safetensors file,
// several tensors could be meant, or the element type is not one of the
// server's.
absl::StatusOr<HostTensor> ReadSafetensor(const std::string& path,
                                          absl::string_view name);

// Names of a file's tensors; errors as above.
absl::StatusOr<std::vector<std::string>> SafetensorNames(
    const std::string& path);

}  // namespace phitap::client

#endif  // PHITAP_CLIENT_CPP_SAFETENSORS_READER_H_
