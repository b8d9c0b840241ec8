// How a model is: there, being loaded, taking requests, going, failed.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_MODELS_MODEL_STATE_H_
#define PHITAP_SERVER_MODELS_MODEL_STATE_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace phitap {

enum class ModelStatus {
  // In the model folder, not loaded.
  kAvailable,
  kLoading,
  // Takes requests.
  kReady,
  // Finishes what it accepted.
  kUnloading,
  kFailed,
};

// "available", "loading", "ready", "unloading", "failed".
absl::string_view Name(ModelStatus status);

struct ModelState {
  std::string name;
  // Of the checkpoint.
  std::string path;
  ModelStatus status = ModelStatus::kAvailable;
  // While it is loaded, also anew beside the one that takes requests: what is
  // being done, and how much of all is done, from 0 to 1.
  std::string stage;
  double progress = 0;
  // Why it could not be loaded.
  std::string failure;
  // 0 while not known.
  int64_t weight_bytes = 0;
  // Since when the status is so.
  absl::Time since;
  // See ServedModel; of a model that is ready or unloading.
  std::string executor;
};

// Is told of a change.
using ModelObserver = std::function<void(const ModelState&)>;

}  // namespace phitap

#endif  // PHITAP_SERVER_MODELS_MODEL_STATE_H_
