// What the loading of a checkpoint tells, and asks, while it goes on.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_MODELS_LOAD_STEPS_H_
#define PHITAP_SERVER_MODELS_LOAD_STEPS_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/models/model_source.h"
#include "server/models/served_model.h"
#include "server/plan/executor.h"

namespace phitap {

// Of one thread.
class LoadSteps {
 public:
  virtual ~LoadSteps() = default;
  // A stage begins, with so much done of all, from 0 to 1. CANCELLED where the
  // loading is to be given up.
  virtual absl::Status Begin(absl::string_view stage, double progress) = 0;
  // Once, before the weights take memory. RESOURCE_EXHAUSTED, with what is
  // needed and what is free, where `weight_bytes` do not fit.
  virtual absl::Status Admit(int64_t weight_bytes) = 0;
};

struct LoadedCheckpoint {
  // Its `executor` is filled in by whoever keeps it.
  ServedModel model;
  std::unique_ptr<Executor> executor;
};

// Loads a checkpoint, on the thread that calls it. Errors of a checkpoint name
// what is wrong with it.
using LoadCheckpoint = std::function<absl::StatusOr<LoadedCheckpoint>(
    const ModelSource& source, LoadSteps& steps)>;

}  // namespace phitap

#endif  // PHITAP_SERVER_MODELS_LOAD_STEPS_H_
