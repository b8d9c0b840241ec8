// Computes the nodes of a program.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_TRACE_EVALUATE_H_
#define PHITAP_SERVER_TRACE_EVALUATE_H_

#include <ATen/core/Tensor.h>

#include "absl/types/span.h"
#include "server/base/host_tensor.h"
#include "server/model/forward.h"
#include "server/model/phi3.h"
#include "server/plan/program.h"

namespace phitap {

struct EvaluationRules {
  const Phi3& model;
  ForwardNumerics numerics = ForwardNumerics::kCausal;
  ForwardGraph graph = ForwardGraph::kNone;
  // All nodes of the plan. A reshape takes from them what its input's shape is
  // in the prompt's pass: in another pass, or in a block of queries, it is
  // smaller along one dimension, and so is the result.
  absl::Span<const ProgramNode> nodes;
};

// The value of an operation or a constant from those of node.inputs, which may
// be of any type; other sources and LatchOp are the caller's.
//
// Computes in float32. Gather, scatter, reshape, permute and concatenate only
// move elements and keep the type that all their inputs have. The result may
// share memory with an input, and never writes one. In kCausal an element's
// bits depend on its own line of the inputs alone, not on how many lines there
// are (a line: what the last dimension holds) nor on the number of threads.
// With ForwardGraph::kRecorded (never in kCausal) libtorch can differentiate
// the result.
//
// Throws c10::Error, with node.field in front, where an index that was computed
// is out of range or the shapes of this pass do not fit.
at::Tensor Evaluate(const ProgramNode& node,
                    absl::Span<const at::Tensor> inputs,
                    const EvaluationRules& rules);

// A tensor of the value's own type over its bytes, which it keeps alive and
// which must not be written.
at::Tensor TensorOver(const HostTensor& value);

}  // namespace phitap

#endif  // PHITAP_SERVER_TRACE_EVALUATE_H_
