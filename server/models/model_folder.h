// The one folder below which administrators may load checkpoints.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_MODELS_MODEL_FOLDER_H_
#define PHITAP_SERVER_MODELS_MODEL_FOLDER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/models/model_source.h"

namespace phitap {

// Immutable, hence thread-safe; what is in the folder may change.
class ModelFolder {
 public:
  // Empty: there is none, and nothing can be loaded from it.
  explicit ModelFolder(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }

  // INVALID_ARGUMENT against `--model-folder` where it is no folder.
  absl::Status Check() const;
  // The checkpoint at `relative`, without symbolic links. Errors are against
  // `path`: INVALID_ARGUMENT for what is not relative or leaves the folder, by
  // `..` or by a symbolic link; NOT_FOUND for no folder, with the nearest
  // names; FAILED_PRECONDITION where the server has no model folder.
  absl::StatusOr<std::string> Resolve(absl::string_view relative) const;
  // Its sub-folders that have a config.json, by name, which is what a request
  // to load them calls them. Empty where it cannot be read.
  std::vector<ModelSource> List() const;

 private:
  const std::string path_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_MODELS_MODEL_FOLDER_H_
