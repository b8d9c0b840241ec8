#include "server/decide_memory.h"

#include <algorithm>
#include <cstdint>

#include "server/free_memory.h"
#include "server/memory_shares.h"
#include "server/observe/log.h"

namespace phitap {

WeightPacking DecideWeightPacking(const ServerConfig& config,
                                  int64_t weight_bytes) {
  return config.packing.value_or(DecidePacking(
      weight_bytes, ReadFreeMemory(ProcessMemorySources()).size_bytes));
}

void DecideTensorMemory(ServerConfig& config) {
  if (config.tensors.max_bytes != 0) return;
  config.tensors.max_bytes =
      DefaultTensorBytes(ReadFreeMemory(ProcessMemorySources()).size_bytes);
  config.limits.max_upload_bytes = config.tensors.max_bytes;
}

MemoryLimits DecideEngineMemory(const ServerConfig& config,
                                const std::vector<ServedModel>& served) {
  MemorySources sources = ProcessMemorySources();
  for (const ServedModel& model : served) {
    if (config.weights != WeightStorage::kMap) break;
    if (!model.packed) sources.mapped_bytes += model.weight_bytes;
  }
  const FreeMemory memory = ReadFreeMemory(sources);
  const MemoryLimits limits =
      DivideMemory({.free_bytes = memory.size_bytes,
                    .tensor_bytes = config.tensors.max_bytes +
                                    config.limits.max_upload_bytes},
                   config.schedule.memory);
  Log(LogLevel::kInfo, "memory",
      {{log_field::kBound, memory.bound},
       {log_field::kFreeBytes, memory.size_bytes},
       {log_field::kUndeliveredBytes, limits.max_undelivered_bytes},
       {log_field::kCallerBytes, limits.max_caller_bytes},
       {log_field::kWorkspaceBytes, limits.max_workspace_bytes},
       {log_field::kWaveBytes, limits.max_wave_bytes},
       {log_field::kRootBytes, limits.max_root_bytes},
       {log_field::kTensorBytes, config.tensors.max_bytes}});
  return limits;
}

}  // namespace phitap
