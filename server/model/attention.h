// The attention of one layer.
//
//   q, k, v = split(x W_qkvᵀ);  q, k = rotate(q), rotate(k)
//   y = (softmax(q kᵀ / √E + visibility) v) W_oᵀ
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_MODEL_ATTENTION_H_
#define PHITAP_SERVER_MODEL_ATTENTION_H_

#include <ATen/core/Tensor.h>

#include "server/model/pass.h"
#include "server/model/weights.h"

namespace phitap {

// What the heads mix of the values: x [T, D], normed → [T of the tail, H, E].
at::Tensor AttentionHeads(const LayerWeights& weights, const at::Tensor& x,
                          const Pass& pass);

// y of the heads' outputs, in the tail: [T, H, E] → [T, D].
at::Tensor AttentionOutput(const LayerWeights& weights, at::Tensor heads,
                           const Pass& pass);

}  // namespace phitap

#endif  // PHITAP_SERVER_MODEL_ATTENTION_H_
