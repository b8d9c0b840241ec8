// Loads the configured checkpoints, telling the log how far it is.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_LOAD_MODELS_H_
#define PHITAP_SERVER_LOAD_MODELS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "server/config.h"
#include "server/rpc/served_models.h"
#include "server/schedule/scheduler.h"

namespace phitap {

struct LoadedModels {
  // In the order of the configuration.
  std::vector<ServedModel> served;
  ExecutorMap executors;
};

// Call on the compute thread. An error names the `--model` that it is about.
absl::StatusOr<LoadedModels> LoadModels(const ServerConfig& config);

}  // namespace phitap

#endif  // PHITAP_SERVER_LOAD_MODELS_H_
