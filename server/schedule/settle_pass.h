// What becomes of a request's groups after a pass of one of them.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_SCHEDULE_SETTLE_PASS_H_
#define PHITAP_SERVER_SCHEDULE_SETTLE_PASS_H_

#include "absl/types/span.h"
#include "server/plan/executor.h"
#include "server/schedule/accepted_trace.h"
#include "server/schedule/group_order.h"

namespace phitap {

// Ends the runs of `pass` that do not go on, each with its outcome (`outcomes`
// are the runs', in order), and once none goes on the group. Where a run has
// failed, the groups after it end as well: FAILED_PRECONDITION that names the
// run, or CANCELLED where that was. On the compute thread.
void SettlePass(const GroupPass& pass, absl::Span<const RowOutcome> outcomes,
                AcceptedTrace& trace);

}  // namespace phitap

#endif  // PHITAP_SERVER_SCHEDULE_SETTLE_PASS_H_
