// SPDX-License-Identifier: Apache-2.0
#include "server/trace/deliver_capture.h"

#include <variant>
#include <vector>

#include "server/model/weights.h"
#include "server/trace/host_view.h"
#include "server/trace/reduce.h"
#include "server/trace/select.h"

namespace phitap {

void DeliverCapture(const Phi3& model, const RunPass& pass, const Watch& watch,
                    const at::Tensor& selected) {
  const PlannedCapture& capture = *watch.capture;
  const bool plain = std::holds_alternative<std::monostate>(capture.reduction);
  const std::vector<at::Tensor> parts =
      Reduce(model, plain ? selected : selected.contiguous(), capture.reduction,
             SeqDimension(capture.point.hook));
  for (size_t part = 0; part < parts.size(); ++part) {
    const int tensor = watch.first_tensor + static_cast<int>(part);
    const DType dtype = pass.plan().tensors[tensor].dtype;
    pass.values->memory().Deliver(*pass.wave_run.sink, tensor,
                                  ToHost(parts[part].to(ScalarTypeOf(dtype))));
  }
}

}  // namespace phitap
