// Values of the nodes that belong to one write, for one part of what it
// touches. SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_TRACE_PART_VALUES_H_
#define PHITAP_SERVER_TRACE_PART_VALUES_H_

#include <ATen/core/Tensor.h>

#include "absl/container/flat_hash_map.h"
#include "server/trace/edit.h"
#include "server/trace/node_values.h"

namespace phitap {

// Not thread-safe; the part and the request's values outlive it.
class PartValues {
 public:
  // `current` is the part as it stands.
  PartValues(NodeValues& values, const WrittenPart& part, at::Tensor current);

  // See NodeValues::Value.
  at::Tensor Value(int node);

 private:
  at::Tensor Find(int node);
  at::Tensor Make(int node);
  at::Tensor Noise(const NoiseValue& noise) const;
  // An input of `consumer`, cut to the part where it stands for everything that
  // the write selects.
  at::Tensor Input(const ProgramNode& consumer, size_t index);

  NodeValues& values_;
  const WrittenPart& part_;
  const at::Tensor current_;
  absl::flat_hash_map<int, at::Tensor> made_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_TRACE_PART_VALUES_H_
