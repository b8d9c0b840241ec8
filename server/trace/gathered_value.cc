// SPDX-License-Identifier: Apache-2.0
#include "server/trace/gathered_value.h"

#include <ATen/ops/empty.h>

#include <utility>

#include "server/trace/host_view.h"
#include "server/trace/place_part.h"

namespace phitap {

void GatheredValue::Add(const std::vector<int64_t>& places,
                        const at::Tensor& part) {
  parts_.push_back({.places = places, .value = ToKeep(part)});
  missing_ -= static_cast<int64_t>(places.size());
}

at::Tensor GatheredValue::Take() {
  const std::vector<Part> parts = std::exchange(parts_, {});
  std::vector<int64_t> shape = parts.front().value.sizes().vec();
  shape[dimension_] = 0;
  for (const Part& part : parts) {
    shape[dimension_] += static_cast<int64_t>(part.places.size());
  }
  at::Tensor whole = at::empty(shape, parts.front().value.options());
  PartIndices indices(dimension_ + 1);
  for (const Part& part : parts) {
    indices[dimension_] = part.places;
    PlacePart(whole, indices, part.value);
  }
  return whole;
}

}  // namespace phitap
