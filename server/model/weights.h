// The tensors of a checkpoint as the forward uses them.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_MODEL_WEIGHTS_H_
#define PHITAP_SERVER_MODEL_WEIGHTS_H_

#include <ATen/core/Tensor.h>

#include <vector>

#include "server/base/dtype.h"
#include "server/checkpoint/checkpoint.h"

namespace phitap {

// Matrices are [out, in].
struct LayerWeights {
  at::Tensor input_norm;           // [D]
  at::Tensor qkv_proj;             // [(H + 2KV)·E, D]
  at::Tensor o_proj;               // [D, H·E]
  at::Tensor post_attention_norm;  // [D]
  at::Tensor gate_up_proj;         // [2F, D]
  at::Tensor down_proj;            // [D, F]
};

struct Weights {
  at::Tensor embedding;  // [V, D]
  std::vector<LayerWeights> layers;
  at::Tensor final_norm;  // [D]
  at::Tensor head;        // [V, D]; the embedding itself where tied
};

// Tensors stored in `dtype` are the checkpoint's own bytes, kept open; others
// are converted copies.
Weights LoadWeights(const Checkpoint& checkpoint, DType dtype);

at::ScalarType ScalarTypeOf(DType dtype);

}  // namespace phitap

#endif  // PHITAP_SERVER_MODEL_WEIGHTS_H_
