// Edits along directions and within subspaces.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_EDITS_LOWER_PROJECTION_H_
#define PHITAP_SERVER_PLAN_EDITS_LOWER_PROJECTION_H_

#include "absl/status/statusor.h"
#include "phitap/v1/intervention.pb.h"
#include "server/plan/edits/part_nodes.h"

namespace phitap {

// Each returns the node of the new value. u, s and t are unit vectors.
// INVALID_ARGUMENT against a field under the part's.

// x − ((1 − keep) (x · u)) u
absl::StatusOr<int> LowerProjectOut(PartNodes& nodes,
                                    const v1::ProjectOutEdit& edit);
// x + (min(max(x · u, low), high) − x · u) u
absl::StatusOr<int> LowerClampProjection(PartNodes& nodes,
                                         const v1::ClampProjectionEdit& edit);
// (x − (x · s) s) + (x · s) t, then with both (… − (x · t) t) + (x · t) s
absl::StatusOr<int> LowerSwap(PartNodes& nodes, const v1::SwapEdit& edit);
// x + (((s − x) R) ⊙ mask) Rᵀ
absl::StatusOr<int> LowerSubspace(PartNodes& nodes,
                                  const v1::SubspaceEdit& edit);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_EDITS_LOWER_PROJECTION_H_
