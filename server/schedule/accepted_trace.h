// A request on its way through the scheduler, and the waves that its passes
// go into.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_SCHEDULE_ACCEPTED_TRACE_H_
#define PHITAP_SERVER_SCHEDULE_ACCEPTED_TRACE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "server/plan/executor.h"
#include "server/plan/trace_plan.h"
#include "server/schedule/byte_budget.h"
#include "server/schedule/executor_table.h"
#include "server/schedule/group_order.h"
#include "server/schedule/result_stream.h"

namespace phitap {

// But for `begun`, the compute thread's once it has been accepted; destroyed on
// that thread, where the memory must be freed.
struct AcceptedTrace {
  explicit AcceptedTrace(std::shared_ptr<const TracePlan> accepted)
      : plan(std::move(accepted)), groups(plan) {}

  const std::shared_ptr<const TracePlan> plan;
  // Given up last, hence after the memory.
  ExecutorTable::Use use;
  // Whose it is: see Submission.
  std::string caller;
  std::shared_ptr<ResultStream> stream;
  absl::Time accepted_at;
  // Whether a pass of it has been taken.
  bool begun = false;
  // When its first wave began.
  absl::Time started_at = absl::InfiniteFuture();
  absl::Duration compute_time;
  GroupOrder groups;
  // The plan's working bytes, until `memory` takes them over.
  ByteBudget::Reservation working_bytes;
  // Gives the plan's working bytes back when it is freed: by whoever has it
  // last, which may be a wave.
  std::shared_ptr<TraceMemory> memory;
};

struct WaveEntry {
  std::shared_ptr<AcceptedTrace> trace;
  GroupPass pass;
};

// What is computed together.
struct GatheredWave {
  // Of one executor, numerics, attention and phase of pass.
  std::vector<WaveEntry> entries;
  // Of all of them.
  PassSize size;

  bool empty() const { return entries.empty(); }
};

}  // namespace phitap

#endif  // PHITAP_SERVER_SCHEDULE_ACCEPTED_TRACE_H_
