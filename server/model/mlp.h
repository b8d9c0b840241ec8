// The gated MLP of one layer.
//
//   gate, up = split(x W_gate_upᵀ)
//   y = (up · silu(gate)) W_downᵀ
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_MODEL_MLP_H_
#define PHITAP_SERVER_MODEL_MLP_H_

#include <ATen/core/Tensor.h>

#include "server/model/pass.h"
#include "server/model/weights.h"

namespace phitap {

// x [T, D], normed → [T, D].
at::Tensor Mlp(const LayerWeights& weights, at::Tensor x, const Pass& pass);

}  // namespace phitap

#endif  // PHITAP_SERVER_MODEL_MLP_H_
