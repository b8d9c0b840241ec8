// The inverse of selecting a part of a tensor.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_TRACE_PLACE_PART_H_
#define PHITAP_SERVER_TRACE_PLACE_PART_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace phitap {

// Indices along each dimension, all where unset.
using PartIndices = std::vector<std::optional<std::vector<int64_t>>>;

// target[indices] = part, which has the size and order of the indices along
// each dimension, and the target's type. Nothing else of the target changes.
void PlacePart(at::Tensor target, const PartIndices& indices,
               const at::Tensor& part);

}  // namespace phitap

#endif  // PHITAP_SERVER_TRACE_PLACE_PART_H_
