// What a plan promises of each of its runs.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_FUZZ_RUN_PROMISES_H_
#define PHITAP_TESTS_FUZZ_RUN_PROMISES_H_

#include <cstdint>

#include "server/plan/trace_plan.h"
#include "server/spec/model_spec.h"

namespace phitap {

inline int64_t TokenCount(const PlannedRun& run) {
  return static_cast<int64_t>(run.ids.size());
}

// Ends the process where `run` of the plan does not fit into the model.
void ExpectRun(const TracePlan& plan, const PlannedRun& run,
               const ModelSpec& spec);

}  // namespace phitap

#endif  // PHITAP_TESTS_FUZZ_RUN_PROMISES_H_
