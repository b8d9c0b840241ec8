#include "server/rpc/memory_use.h"

#include <limits>

#include "server/observe/process_stat.h"

namespace phitap {
namespace {

int64_t Bound(int64_t limit_bytes) {
  return limit_bytes == std::numeric_limits<int64_t>::max() ? 0 : limit_bytes;
}

}  // namespace

std::vector<MemoryUse> ReadMemoryUse(const Scheduler& scheduler,
                                     const NamedTensors& tensors,
                                     const ServedModels& models) {
  const EngineActivity activity = scheduler.activity();
  const MemoryLimits& limits = scheduler.memory();
  int64_t weight_bytes = 0;
  for (const std::shared_ptr<const ServedModel>& model : models.all()) {
    weight_bytes += model->weight_bytes;
  }
  return {{.kind = "undelivered",
           .used_bytes = activity.undelivered_bytes,
           .limit_bytes = Bound(limits.max_undelivered_bytes)},
          {.kind = "workspace",
           .used_bytes = activity.waves.workspace_bytes,
           .limit_bytes = Bound(limits.max_workspace_bytes)},
          {.kind = "roots",
           .used_bytes = activity.root_bytes,
           .limit_bytes = Bound(limits.max_root_bytes)},
          {.kind = "tensors",
           .used_bytes = tensors.used_bytes(),
           .limit_bytes = Bound(tensors.max_bytes())},
          {.kind = "weights", .used_bytes = weight_bytes},
          {.kind = "resident", .used_bytes = ReadProcessStat().resident_bytes}};
}

}  // namespace phitap
