// One kept tensor as a safetensors file.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_TENSORS_TENSOR_FILE_H_
#define PHITAP_SERVER_TENSORS_TENSOR_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/tensors/named_tensors.h"

namespace phitap {

// Ends the name of every file that holds a tensor.
inline constexpr char kTensorFileSuffix[] = ".safetensors";

// The file's name for a tensor's: `%` for `/`, and where that would be longer
// than file systems take, its beginning and a digest of it all. Never begins
// with a dot; two tensors have two names.
std::string TensorFileName(absl::string_view tensor_name);

// Writes `tensor` to a new file at `path`, and to the disk.
absl::Status WriteTensorFile(const std::string& path,
                             const NamedTensor& tensor);

// The file's only tensor; its bytes are the mapped file's. An error names the
// file and what is wrong: DATA_LOSS for what is no safetensors file of one
// tensor of an element type that is kept.
absl::StatusOr<NamedTensor> ReadTensorFile(const std::string& path);

}  // namespace phitap

#endif  // PHITAP_SERVER_TENSORS_TENSOR_FILE_H_
