// What computes, what it computes with, and for whom.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_ENGINE_H_
#define PHITAP_SERVER_ENGINE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "server/base/clock.h"
#include "server/checkpoint_loader.h"
#include "server/config.h"
#include "server/identity/identity_file.h"
#include "server/models/model_keeper.h"
#include "server/models/served_models.h"
#include "server/observe/metrics.h"
#include "server/schedule/scheduler.h"
#include "server/tensors/named_tensors.h"

namespace phitap {

struct Engine {
  std::unique_ptr<Metrics> metrics = std::make_unique<Metrics>();
  // First, and destroyed last: what was accepted may still be kept in it.
  std::unique_ptr<NamedTensors> tensors;
  // Null where nobody can call by name.
  std::unique_ptr<IdentityFile> identities;
  std::unique_ptr<CheckpointLoader> loader;
  std::unique_ptr<Scheduler> scheduler;
  std::unique_ptr<ServedModels> models;
  std::unique_ptr<ModelKeeper> keeper;
};

// Without models yet: `keeper` loads them. Decides what `config` leaves open of
// memory; `clock` and `config` outlive the engine. The error of what cannot be
// opened or does not fit names the flag.
absl::StatusOr<Engine> StartEngine(const Clock& clock, ServerConfig& config);

}  // namespace phitap

#endif  // PHITAP_SERVER_ENGINE_H_
