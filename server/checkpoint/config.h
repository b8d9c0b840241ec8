// config.json and generation_config.json of the Phi-3 family, in the spellings
// of transformers 4 and 5, read as transformers reads them.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_CHECKPOINT_CONFIG_H_
#define PHITAP_SERVER_CHECKPOINT_CONFIG_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/base/dtype.h"
#include "server/spec/model_spec.h"

namespace phitap {

struct CheckpointConfig {
  // `dtype` and `tied_head` are what the config says; the stored tensors have
  // the last word on both, see Checkpoint.
  ModelSpec spec;
  // The config's own element type, if it names one.
  std::optional<DType> dtype;
  // What was read but has no effect, one sentence each.
  std::vector<std::string> warnings;
};

// Keys that are missing take the values of transformers' Phi3Config. NOT_FOUND
// for a missing folder or config.json, DATA_LOSS for what is not JSON,
// INVALID_ARGUMENT for a value that could not work, FAILED_PRECONDITION for a
// checkpoint of another kind (phi3small, adapters, quantised, …).
absl::StatusOr<CheckpointConfig> ReadConfig(absl::string_view folder);

}  // namespace phitap

#endif  // PHITAP_SERVER_CHECKPOINT_CONFIG_H_
