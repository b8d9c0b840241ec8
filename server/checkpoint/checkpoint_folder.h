// What a folder must hold to be a checkpoint, and which of its files have the
// weights.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_CHECKPOINT_CHECKPOINT_FOLDER_H_
#define PHITAP_SERVER_CHECKPOINT_CHECKPOINT_FOLDER_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace phitap {

// Whether `folder` holds `name`, a file or what a link leads to.
bool HasFile(absl::string_view folder, absl::string_view name);

// OK for a folder with a config.json. NOT_FOUND where it or the folder is
// missing, FAILED_PRECONDITION for adapters and folders of other formats (ONNX,
// GGUF), which the error names.
absl::Status CheckFolder(absl::string_view folder);

struct WeightFiles {
  // The file that says which tensors there are: the index, or the only file.
  std::string list_name;
  // Plain names within the folder, ascending.
  std::vector<std::string> names;
  // The file that each tensor should be in; empty for a single file without an
  // index.
  std::map<std::string, std::string> file_of_tensor;
  std::vector<std::string> warnings;
};

// model.safetensors, else the shards of model.safetensors.index.json, as
// transformers chooses. NOT_FOUND, also for a missing shard; DATA_LOSS for an
// index that is malformed or names a file outside the folder.
absl::StatusOr<WeightFiles> FindWeights(absl::string_view folder);

}  // namespace phitap

#endif  // PHITAP_SERVER_CHECKPOINT_CHECKPOINT_FOLDER_H_
