// Computes what is asked for, and before it what that needs, without recursion:
// programs may be as deep as they are long.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_TRACE_DEMAND_H_
#define PHITAP_SERVER_TRACE_DEMAND_H_

#include <ATen/core/Tensor.h>

#include <vector>

#include "absl/types/span.h"
#include "server/plan/program.h"

namespace phitap {

// `find(node)` is a node's value, undefined where it is not there; `make(node)`
// computes it from its inputs, which are there, so that `find` finds it.
template <typename Find, typename Make>
at::Tensor Demand(int node, absl::Span<const ProgramNode> nodes,
                  const Find& find, const Make& make) {
  at::Tensor value = find(node);
  std::vector<int> pending;
  if (!value.defined()) pending.push_back(node);
  while (!pending.empty()) {
    const int next = pending.back();
    const size_t count = pending.size();
    if (!find(next).defined()) {
      for (const int input : nodes[next].inputs) {
        if (!find(input).defined()) pending.push_back(input);
      }
      if (pending.size() > count) continue;
      make(next);
    }
    pending.pop_back();
  }
  return value.defined() ? value : find(node);
}

}  // namespace phitap

#endif  // PHITAP_SERVER_TRACE_DEMAND_H_
