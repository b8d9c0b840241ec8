// The element-by-element functions of a program.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_TRACE_EVALUATE_FUNCTION_H_
#define PHITAP_SERVER_TRACE_EVALUATE_FUNCTION_H_

#include <ATen/core/Tensor.h>

#include "absl/types/span.h"
#include "server/model/forward.h"
#include "server/plan/program.h"

namespace phitap {

// Of float32 inputs, as many as the function takes, which broadcast. Truths are
// 1 and 0. See Evaluate for what `numerics` promises.
at::Tensor EvaluateFunction(Function function,
                            absl::Span<const at::Tensor> inputs,
                            ForwardNumerics numerics);

}  // namespace phitap

#endif  // PHITAP_SERVER_TRACE_EVALUATE_FUNCTION_H_
