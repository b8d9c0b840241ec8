// libtorch's arithmetic on float32, called so that an element's bits depend on
// its own line alone: not on how many lines there are, nor on the threads.
//
// A line is what the last dimension holds. What is not here (sums, products,
// comparisons of elements, square roots) has that property by itself.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_TRACE_LINE_MATH_H_
#define PHITAP_SERVER_TRACE_LINE_MATH_H_

#include <ATen/core/Tensor.h>

#include "absl/functional/function_ref.h"
#include "server/model/row_rule.h"

namespace phitap {

// `function`, which works element by element and in place, of a copy of x.
at::Tensor MapLines(const at::Tensor& x,
                    absl::FunctionRef<void(at::Tensor&)> function);

// `reduction` of x over `dimensions` (all where empty), which stay with size 1.
// It gets lines [n, m] and returns [n, 1].
at::Tensor ReduceLines(
    const at::Tensor& x, at::IntArrayRef dimensions,
    absl::FunctionRef<at::Tensor(const at::Tensor&)> reduction);

// x [..., in] · weightᵀ [out, in].
at::Tensor LinearLines(const at::Tensor& x, const at::Tensor& weight,
                       const RowRule& rule);

// Over the last dimension.
at::Tensor SoftmaxLines(const at::Tensor& x);
at::Tensor LogSoftmaxLines(const at::Tensor& x);

}  // namespace phitap

#endif  // PHITAP_SERVER_TRACE_LINE_MATH_H_
