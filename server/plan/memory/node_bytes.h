// What the values of a request's nodes take, and for how long.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_MEMORY_NODE_BYTES_H_
#define PHITAP_SERVER_PLAN_MEMORY_NODE_BYTES_H_

#include <cstdint>
#include <vector>

#include "server/base/dtype.h"
#include "server/plan/trace_plan.h"

namespace phitap {

struct NodeBytes {
  // Tensors that came with the request or are kept on the server.
  int64_t constants = 0;
  // Values that a group other than the one that makes them uses.
  int64_t held = 0;
  // By group: of those that only the group itself uses.
  std::vector<int64_t> of_group;
  // While the dearest node is computed, or the dearest write applied.
  int64_t largest_step = 0;
};

// Upper bounds for a plan with groups; saturating. Takes time linear in the
// plan.
NodeBytes CountNodeBytes(const TracePlan& plan, DType compute_dtype);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_MEMORY_NODE_BYTES_H_
