// What tells writes that do the same from those that do not.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_SHARING_WRITE_DIGESTS_H_
#define PHITAP_SERVER_PLAN_SHARING_WRITE_DIGESTS_H_

#include <vector>

#include "server/plan/sharing/canonical_bytes.h"
#include "server/plan/trace_plan.h"

namespace phitap {

// Made in time linear in the plan and the bytes of its constants, each of which
// is hashed once. Thread-compatible.
class WriteDigests {
 public:
  explicit WriteDigests(const TracePlan& plan);

  // See WriteExtent::digest: of the hook point, the selection and all that
  // value and condition are computed from. 0,0 where that has values of runs.
  Digest Of(const PlannedWrite& write) const;

 private:
  // By node; 0,0 where it needs values of runs or no write needs it.
  std::vector<Digest> nodes_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_SHARING_WRITE_DIGESTS_H_
