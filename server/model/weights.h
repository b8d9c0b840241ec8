// The tensors of a checkpoint as the forward uses them.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_MODEL_WEIGHTS_H_
#define PHITAP_SERVER_MODEL_WEIGHTS_H_

#include <ATen/core/Tensor.h>

#include <vector>

#include "absl/status/statusor.h"
#include "server/base/dtype.h"
#include "server/checkpoint/checkpoint.h"
#include "server/model/matrix.h"
#include "server/model/weight_packing.h"
#include "server/model/weight_progress.h"

namespace phitap {

struct LayerWeights {
  at::Tensor input_norm;           // [D]
  Matrix qkv_proj;                 // [(H + 2KV)·E, D]
  Matrix o_proj;                   // [D, H·E]
  at::Tensor post_attention_norm;  // [D]
  Matrix gate_up_proj;             // [2F, D]
  Matrix down_proj;                // [D, F]
};

struct Weights {
  at::Tensor embedding;  // [V, D]
  std::vector<LayerWeights> layers;
  at::Tensor final_norm;  // [D]
  Matrix head;            // [V, D]; the embedding itself where tied
};

// Tensors stored in `dtype` are the checkpoint's own bytes, kept open; others
// are converted copies. `on_progress` may be null; its errors are returned.
absl::StatusOr<Weights> LoadWeights(const Checkpoint& checkpoint, DType dtype,
                                    WeightPacking packing,
                                    const WeightProgress& on_progress);
// Frees what is packed.
void Unpack(Weights& weights);

at::ScalarType ScalarTypeOf(DType dtype);

}  // namespace phitap

#endif  // PHITAP_SERVER_MODEL_WEIGHTS_H_
