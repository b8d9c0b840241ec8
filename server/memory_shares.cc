#include "server/memory_shares.h"

#include <algorithm>

namespace phitap {
namespace {

// Below it nothing can be served.
constexpr int64_t kLeastBytes = int64_t{16} << 20;
constexpr int64_t kMostRootBytes = int64_t{2} << 30;
// A larger wave is hardly faster, and a layer of it takes longer.
constexpr int64_t kMostWaveBytes = int64_t{2} << 30;

constexpr int64_t kMostTensorBytes = int64_t{4} << 30;

void FillIn(int64_t& limit, int64_t bytes) {
  if (limit == 0) limit = std::max(bytes, kLeastBytes);
}

}  // namespace

WeightPacking DecidePacking(int64_t weight_bytes, int64_t free_bytes) {
  return weight_bytes <= free_bytes / 2 ? WeightPacking::kPacked
                                        : WeightPacking::kNone;
}

int64_t DefaultTensorBytes(int64_t free_bytes) {
  return std::clamp(free_bytes / 16, kLeastBytes, kMostTensorBytes);
}

MemoryLimits DivideMemory(const MemoryNeeds& needs, MemoryLimits limits) {
  int64_t left = needs.free_bytes - needs.tensor_bytes;
  left -= left / 8;
  FillIn(limits.max_root_bytes, std::min(left / 8, kMostRootBytes));
  left -= limits.max_root_bytes;
  if (limits.max_workspace_bytes != 0) left -= limits.max_workspace_bytes;
  FillIn(limits.max_undelivered_bytes,
         limits.max_workspace_bytes == 0 ? left / 2 : left);
  FillIn(limits.max_workspace_bytes, left - limits.max_undelivered_bytes);
  FillIn(limits.max_caller_bytes, limits.max_undelivered_bytes / 2);
  // Half, so that a wave that is set aside leaves room for another.
  FillIn(limits.max_wave_bytes,
         std::min(limits.max_workspace_bytes / 2, kMostWaveBytes));
  return limits;
}

}  // namespace phitap
