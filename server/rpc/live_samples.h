// The metrics that are read when somebody asks for them.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_RPC_LIVE_SAMPLES_H_
#define PHITAP_SERVER_RPC_LIVE_SAMPLES_H_

#include <vector>

#include "server/models/served_models.h"
#include "server/observe/metrics.h"
#include "server/schedule/scheduler.h"
#include "server/tensors/named_tensors.h"

namespace phitap {

// What they are read from.
struct LiveParts {
  const Scheduler* scheduler = nullptr;
  const NamedTensors* tensors = nullptr;
  const ServedModels* models = nullptr;
};

// Of the engine, the memory, the models and the process.
std::vector<MetricSample> ReadLiveSamples(const LiveParts& parts);

}  // namespace phitap

#endif  // PHITAP_SERVER_RPC_LIVE_SAMPLES_H_
