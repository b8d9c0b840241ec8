#include "server/decide_memory.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"
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

absl::Status DecideModelMemory(int64_t configured_bytes, ServerConfig& config) {
  if (config.max_model_bytes == 0) {
    config.max_model_bytes = configured_bytes;
    if (config.model_folder.empty()) return absl::OkStatus();
    const int64_t free_bytes =
        ReadFreeMemory(ProcessMemorySources()).size_bytes - configured_bytes;
    config.max_model_bytes += std::max<int64_t>(free_bytes, 0) / 2;
    return absl::OkStatus();
  }
  if (config.max_model_bytes >= configured_bytes) return absl::OkStatus();
  return InvalidField(
      {.field = "--max-model-bytes",
       .problem = absl::StrCat(config.max_model_bytes),
       .valid = absl::StrCat("at least ", configured_bytes,
                             ", which the models of --model need")});
}

int64_t FreeForModels(int64_t mapped_bytes) {
  MemorySources sources = ProcessMemorySources();
  sources.mapped_bytes = mapped_bytes;
  return ReadFreeMemory(sources).size_bytes;
}

MemoryLimits DecideEngineMemory(const ServerConfig& config) {
  const FreeMemory memory = ReadFreeMemory(ProcessMemorySources());
  const MemoryLimits limits = DivideMemory(
      {.free_bytes =
           std::max<int64_t>(memory.size_bytes - config.max_model_bytes, 0),
       .tensor_bytes =
           config.tensors.max_bytes + config.limits.max_upload_bytes},
      config.schedule.memory);
  Log(LogLevel::kInfo, "memory",
      {{log_field::kBound, memory.bound},
       {log_field::kFreeBytes, memory.size_bytes},
       {log_field::kModelBytes, config.max_model_bytes},
       {log_field::kUndeliveredBytes, limits.max_undelivered_bytes},
       {log_field::kCallerBytes, limits.max_caller_bytes},
       {log_field::kWorkspaceBytes, limits.max_workspace_bytes},
       {log_field::kWaveBytes, limits.max_wave_bytes},
       {log_field::kRootBytes, limits.max_root_bytes},
       {log_field::kTensorBytes, config.tensors.max_bytes}});
  return limits;
}

}  // namespace phitap
