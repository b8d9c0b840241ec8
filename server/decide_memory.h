// Decides what the configuration leaves to the memory that is there, and tells
// the log.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_DECIDE_MEMORY_H_
#define PHITAP_SERVER_DECIDE_MEMORY_H_

#include <cstdint>
#include <vector>

#include "server/config.h"
#include "server/model/weight_packing.h"
#include "server/rpc/served_models.h"
#include "server/schedule/memory_limits.h"

namespace phitap {

// Whether a model's weights, of so many bytes, are packed: as configured, else
// by the memory that is there before they are.
WeightPacking DecideWeightPacking(const ServerConfig& config,
                                  int64_t weight_bytes);

// Fills in the bytes of named tensors and uploads. Before any are read.
void DecideTensorMemory(ServerConfig& config);

// What the engine may hold beside these. Once the models are loaded.
MemoryLimits DecideEngineMemory(const ServerConfig& config,
                                const std::vector<ServedModel>& served);

}  // namespace phitap

#endif  // PHITAP_SERVER_DECIDE_MEMORY_H_
