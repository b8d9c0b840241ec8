// How much the engine may hold of each kind.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_SCHEDULE_MEMORY_LIMITS_H_
#define PHITAP_SERVER_SCHEDULE_MEMORY_LIMITS_H_

#include <cstdint>

namespace phitap {

// In bytes; none counts what another does. 0 is not decided: see
// Scheduler::Start.
struct MemoryLimits {
  // Answers that are queued, computed or not yet sent
  // (TracePlan::storage_bytes) and what requests hold between their waves
  // (TracePlan::working_bytes).
  int64_t max_undelivered_bytes = 0;
  // Of these, one caller's.
  int64_t max_caller_bytes = 0;
  // What the waves under way work in.
  int64_t max_workspace_bytes = 0;
  // Of these, what one wave takes; a single group of runs may take more.
  int64_t max_wave_bytes = 0;
  // Rows that are kept for later waves.
  int64_t max_root_bytes = 0;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_SCHEDULE_MEMORY_LIMITS_H_
