// Which positions a selection meant.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CPP_POSITIONS_H_
#define PHITAP_CLIENT_CPP_POSITIONS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "phitap/v1/selection.pb.h"

namespace phitap::client {

// The indices of a set along a dimension of `size`, in its order, as the
// server reads them; those out of range are left out.
std::vector<int64_t> ResolveIndices(const v1::IndexSet& set, int64_t size);

// What the rows of a captured `seq` dimension are in a prompt of these tokens:
// all positions where the selection names none.
std::vector<int64_t> ResolvePositions(const v1::Selection& selection,
                                      absl::Span<const int32_t> ids);

}  // namespace phitap::client

#endif  // PHITAP_CLIENT_CPP_POSITIONS_H_
