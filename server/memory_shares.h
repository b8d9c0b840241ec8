// Divides the memory that is there among what the server holds.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_MEMORY_SHARES_H_
#define PHITAP_SERVER_MEMORY_SHARES_H_

#include <cstdint>

#include "server/model/weight_packing.h"
#include "server/schedule/memory_limits.h"

namespace phitap {

struct MemoryNeeds {
  // See FreeMemory, with the models loaded.
  int64_t free_bytes = 0;
  // What named tensors and uploads may take.
  int64_t tensor_bytes = 0;
};

// Whether weights of so many bytes are packed where nobody has said: where that
// leaves half of the memory.
WeightPacking DecidePacking(int64_t weight_bytes, int64_t free_bytes);

// Of named tensors, and as much again of uploads.
int64_t DefaultTensorBytes(int64_t free_bytes);

// Fills in those of `limits` that are 0, so that all of them together fit with
// an eighth to spare; those that are not 0 stay as they are.
MemoryLimits DivideMemory(const MemoryNeeds& needs, MemoryLimits limits);

}  // namespace phitap

#endif  // PHITAP_SERVER_MEMORY_SHARES_H_
