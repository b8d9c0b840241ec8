// Decides what the configuration leaves to the memory that is there, and tells
// the log.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_DECIDE_MEMORY_H_
#define PHITAP_SERVER_DECIDE_MEMORY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "server/config.h"
#include "server/model/weight_packing.h"
#include "server/schedule/memory_limits.h"

namespace phitap {

// Whether a model's weights, of so many bytes, are packed: as configured, else
// by the memory that is there before they are.
WeightPacking DecideWeightPacking(const ServerConfig& config,
                                  int64_t weight_bytes);

// Fills in the bytes of named tensors and uploads. Before any are read.
void DecideTensorMemory(ServerConfig& config);

// Fills in what weights of models may take: `configured_bytes` for those of the
// configuration and, where others may be loaded, half of what is free beside
// them. INVALID_ARGUMENT where the bound that is given does not suffice.
absl::Status DecideModelMemory(int64_t configured_bytes, ServerConfig& config);

// What another model may take beside those of which files of `mapped_bytes` are
// used in place.
int64_t FreeForModels(int64_t mapped_bytes);

// What the engine may hold beside these. Before any model is loaded.
MemoryLimits DecideEngineMemory(const ServerConfig& config);

}  // namespace phitap

#endif  // PHITAP_SERVER_DECIDE_MEMORY_H_
