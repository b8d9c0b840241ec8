// Fills in tensors that nodes are computed for.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_TRACE_DELIVER_OUTPUTS_H_
#define PHITAP_SERVER_TRACE_DELIVER_OUTPUTS_H_

#include "absl/status/status.h"
#include "server/plan/executor.h"
#include "server/trace/node_values.h"

namespace phitap {

// Puts every output of the request that has become computable into its tensor,
// and hands over those that are complete. The first error is returned once all
// were tried.
absl::Status DeliverOutputs(NodeValues& values, ResultSink& sink);

}  // namespace phitap

#endif  // PHITAP_SERVER_TRACE_DELIVER_OUTPUTS_H_
