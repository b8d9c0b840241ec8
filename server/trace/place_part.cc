// SPDX-License-Identifier: Apache-2.0
#include "server/trace/place_part.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/tensor.h>

#include "server/trace/select.h"

namespace phitap {

void PlacePart(at::Tensor target, const PartIndices& indices,
               const at::Tensor& part) {
  // Dimensions whose indices follow one another become views.
  std::vector<int64_t> scattered;
  for (size_t d = 0; d < indices.size(); ++d) {
    if (!indices[d].has_value()) continue;
    const auto dimension = static_cast<int64_t>(d);
    if (Consecutive(*indices[d])) {
      target = Pick(target, dimension, *indices[d]);
    } else {
      scattered.push_back(dimension);
    }
  }
  if (scattered.empty()) {
    target.copy_(part);
    return;
  }
  if (scattered.size() == 1) {
    const int64_t dimension = scattered.front();
    target.index_copy_(dimension, at::tensor(*indices[dimension]), part);
    return;
  }
  c10::List<std::optional<at::Tensor>> grid;
  size_t next = 0;
  for (int64_t d = 0; d < target.dim(); ++d) {
    const bool here = next < scattered.size() && scattered[next] == d;
    if (here) ++next;
    std::vector<int64_t> shape(target.dim(), 1);
    shape[d] = -1;
    grid.push_back(
        (here ? at::tensor(*indices[d])
              : at::arange(target.size(d), at::TensorOptions(at::kLong)))
            .view(shape));
  }
  target.index_put_(grid, part);
}

}  // namespace phitap
