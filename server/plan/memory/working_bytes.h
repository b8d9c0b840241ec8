// What a request holds on the server, before anything of it is computed.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_MEMORY_WORKING_BYTES_H_
#define PHITAP_SERVER_PLAN_MEMORY_WORKING_BYTES_H_

#include "absl/status/status.h"
#include "server/plan/plan_context.h"
#include "server/plan/trace_plan.h"

namespace phitap {

// Fills in storage_bytes, working_bytes and workspace_bytes of a plan whose
// groups, reaches and own tokens are known, and its groups' workspace_bytes.
// RESOURCE_EXHAUSTED past Limits::max_working_bytes, or where a
// group needs more than Limits::max_wave_bytes, naming the largest part.
absl::Status CountWorkingBytes(const PlanContext& context, TracePlan& plan);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_MEMORY_WORKING_BYTES_H_
