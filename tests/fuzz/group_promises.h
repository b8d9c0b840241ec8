// What a plan promises of the order in which its groups can be computed.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_FUZZ_GROUP_PROMISES_H_
#define PHITAP_TESTS_FUZZ_GROUP_PROMISES_H_

#include "server/plan/trace_plan.h"

namespace phitap {

// Ends the process where a run or gradient pass is not in exactly one group, or
// a write, a condition or a metric needs a value of a group that does not end
// before (a write's may be of the same).
void ExpectOrder(const TracePlan& plan);

}  // namespace phitap

#endif  // PHITAP_TESTS_FUZZ_GROUP_PROMISES_H_
