// The waves of a plan, as far as they go without computing.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_FUZZ_PLAN_WAVES_H_
#define PHITAP_TESTS_FUZZ_PLAN_WAVES_H_

#include <memory>

#include "server/plan/trace_plan.h"

namespace phitap {

// Takes the plan through admission and wave after wave to its end, as if each
// had been computed. Ends the process where a group is never ready, or the rows
// of a wave break what server/plan/executor.h says of them.
void ExpectWaves(const std::shared_ptr<const TracePlan>& plan);

}  // namespace phitap

#endif  // PHITAP_TESTS_FUZZ_PLAN_WAVES_H_
