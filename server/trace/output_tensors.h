// Tensors of an answer that nodes fill in, piece by piece.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_TRACE_OUTPUT_TENSORS_H_
#define PHITAP_SERVER_TRACE_OUTPUT_TENSORS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "server/base/host_tensor.h"
#include "server/plan/trace_plan.h"

namespace phitap {

// Not thread-safe; the plan must outlive it.
class OutputTensors {
 public:
  explicit OutputTensors(const TracePlan& plan) : plan_(plan) {}

  // Puts the node's value where the output belongs, rounded to the tensor's
  // type. Returns the tensor once every element of it has been put.
  std::optional<HostTensor> Put(const PlannedOutput& output,
                                const at::Tensor& value);

 private:
  struct UnderWay {
    at::Tensor elements;  // flat
    int64_t missing = 0;
  };

  const TracePlan& plan_;
  absl::flat_hash_map<int, UnderWay> under_way_;  // by tensor
};

}  // namespace phitap

#endif  // PHITAP_SERVER_TRACE_OUTPUT_TENSORS_H_
