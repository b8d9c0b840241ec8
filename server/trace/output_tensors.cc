#include "server/trace/output_tensors.h"

#include <ATen/ops/empty.h>

#include <utility>

#include "server/model/weights.h"
#include "server/trace/host_view.h"

namespace phitap {

std::optional<HostTensor> OutputTensors::Put(const PlannedOutput& output,
                                             const at::Tensor& value) {
  const PlannedTensor& tensor = plan_.tensors[output.tensor];
  const at::TensorOptions options(ScalarTypeOf(tensor.dtype));
  const int64_t element_count = ElementCount(tensor.shape);
  UnderWay& under_way = under_way_[output.tensor];
  if (!under_way.elements.defined()) {
    under_way = {.elements = at::empty({element_count}, options),
                 .missing = element_count};
  }
  under_way.elements.narrow(0, output.offset, value.numel())
      .copy_(value.reshape({-1}));
  under_way.missing -= value.numel();
  if (under_way.missing > 0) return std::nullopt;
  const at::Tensor whole = under_way.elements.view(tensor.shape);
  under_way_.erase(output.tensor);
  return ToHost(whole);
}

}  // namespace phitap
