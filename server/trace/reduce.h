// What captures make of a selected value on the server.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_TRACE_REDUCE_H_
#define PHITAP_SERVER_TRACE_REDUCE_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "server/model/phi3.h"
#include "server/plan/trace_plan.h"

namespace phitap {

// The k largest entries of each row, best first: values [..., k] in the value's
// type and int32 indices [..., k]. NaN counts as largest; ties go to the
// smaller index.
struct Top {
  at::Tensor values;
  at::Tensor indices;
};
Top TopOf(const at::Tensor& value, int64_t k);

// probabilities [n, k], indices [n, k] and, where token ids are given,
// token_probabilities [n, ids] and token_ranks [n, ids]: softmax in float32 of
// the head's logits for `residual` [n, D]. Works through blocks of rows, so
// that the vocabulary is held for a few at a time.
std::vector<at::Tensor> LensOf(const Phi3& model, const at::Tensor& residual,
                               const LogitLensReduction& lens);

// The tensors that `reduction` makes of a contiguous value, in the order of
// PlannedCapture::first_tensor. `seq_dimension` is the index of the positions,
// −1 where there are none.
std::vector<at::Tensor> Reduce(const Phi3& model, const at::Tensor& value,
                               const Reduction& reduction,
                               int64_t seq_dimension);

}  // namespace phitap

#endif  // PHITAP_SERVER_TRACE_REDUCE_H_
