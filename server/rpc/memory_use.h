// How much memory of each kind the server holds.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_RPC_MEMORY_USE_H_
#define PHITAP_SERVER_RPC_MEMORY_USE_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/models/served_models.h"
#include "server/schedule/scheduler.h"
#include "server/tensors/named_tensors.h"

namespace phitap {

struct MemoryUse {
  // As in the protocol: "undelivered", "workspace", "roots", "tensors",
  // "weights", "resident".
  absl::string_view kind;
  int64_t used_bytes = 0;
  // 0 where there is no bound.
  int64_t limit_bytes = 0;
};

// One of each kind.
std::vector<MemoryUse> ReadMemoryUse(const Scheduler& scheduler,
                                     const NamedTensors& tensors,
                                     const ServedModels& models);

}  // namespace phitap

#endif  // PHITAP_SERVER_RPC_MEMORY_USE_H_
