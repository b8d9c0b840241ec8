// A plan in the protocol's words.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_DESCRIBE_H_
#define PHITAP_SERVER_PLAN_DESCRIBE_H_

#include "phitap/v1/activation_service.pb.h"
#include "phitap/v1/tensor.pb.h"
#include "phitap/v1/trace.pb.h"
#include "server/plan/trace_plan.h"

namespace phitap {

// Tensor number `tensor` of the plan. One of a node or a sweep has neither run
// nor hook point.
v1::TensorDescriptor DescribeTensor(const TracePlan& plan, int tensor);

// Run number `run`; without the texts of its tokens.
v1::RunTokens DescribeTokens(const TracePlan& plan, int run);

// The whole plan: the tensors that would be sent (not those that are kept on
// the server) and the caller's own runs; without the texts of tokens.
v1::PlanTraceResponse DescribePlan(const TracePlan& plan);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_DESCRIBE_H_
