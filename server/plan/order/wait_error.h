// Says why runs cannot be put in an order.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_ORDER_WAIT_ERROR_H_
#define PHITAP_SERVER_PLAN_ORDER_WAIT_ERROR_H_

#include <vector>

#include "absl/status/status.h"
#include "server/plan/order/forward_order.h"
#include "server/plan/order/wait_graph.h"
#include "server/plan/trace_plan.h"
#include "server/spec/model_spec.h"

namespace phitap {

// Each is INVALID_ARGUMENT and names the fields, runs and hook points.

// The write needs something of its own run, or of one that waits for its run,
// that is not there in time: below it there is a read of a run of `component`
// that is ready after `need`.
struct LateWrite {
  const PlannedWrite& write;
  Moment need = kBeforeAll;
  const std::vector<int>& component;
};
absl::Status ComesTooLate(const TracePlan& plan, const WaitGraph& graph,
                          const ModelSpec& spec, const LateWrite& late);

// The runs and gradient passes of a component wait for each other.
absl::Status WaitForEachOther(const TracePlan& plan, const WaitGraph& graph,
                              const std::vector<int>& component);

// Each of the writes needs, after the edits there, what the next one edits at
// the same hook point, the last of them what the first edits.
absl::Status WaitAtOnePoint(const TracePlan& plan,
                            const std::vector<const PlannedWrite*>& writes);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_ORDER_WAIT_ERROR_H_
