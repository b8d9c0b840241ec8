// What a plan promises to whoever computes it.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_FUZZ_PLAN_PROMISES_H_
#define PHITAP_TESTS_FUZZ_PLAN_PROMISES_H_

#include "server/plan/limits.h"
#include "server/plan/trace_plan.h"
#include "server/spec/model_spec.h"

namespace phitap {

// Ends the process where the plan does not hold what server/plan says of it:
// every index is of something that is there, every run goes as far as it is
// read, values come before they are needed, bytes add up and stay within the
// limits.
void ExpectPromises(const TracePlan& plan, const ModelSpec& spec,
                    const Limits& limits);

}  // namespace phitap

#endif  // PHITAP_TESTS_FUZZ_PLAN_PROMISES_H_
