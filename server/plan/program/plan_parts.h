// What parts of one request share while it is planned.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_PROGRAM_PLAN_PARTS_H_
#define PHITAP_SERVER_PLAN_PROGRAM_PLAN_PARTS_H_

#include "phitap/v1/trace.pb.h"
#include "server/plan/plan_context.h"
#include "server/plan/program/program_builder.h"
#include "server/plan/runs/plan_runs.h"

namespace phitap {

// All outlive it.
struct PlanParts {
  const v1::TraceRequest& request;
  const PlanContext& context;
  const RunIndex& runs;
  TracePlan& plan;
  ProgramBuilder& builder;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_PROGRAM_PLAN_PARTS_H_
