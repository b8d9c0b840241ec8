// The tensors that a Phi-3 checkpoint holds: the one place that knows their
// names and shapes. SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_CHECKPOINT_EXPECTED_TENSORS_H_
#define PHITAP_SERVER_CHECKPOINT_EXPECTED_TENSORS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/spec/model_spec.h"

namespace phitap {

inline constexpr char kEmbeddingName[] = "model.embed_tokens.weight";
inline constexpr char kFinalNormName[] = "model.norm.weight";
inline constexpr char kHeadName[] = "lm_head.weight";

// `model.layers.LAYER.PART.weight`, e.g. part `self_attn.qkv_proj`.
std::string LayerTensorName(int64_t layer, absl::string_view part);

struct ExpectedTensor {
  std::string name;
  std::vector<int64_t> shape;
};

// In the order of the forward: embedding, layers, final norm, head. With a tied
// head the head is listed too, and is the embedding.
std::vector<ExpectedTensor> ExpectedTensors(const ModelSpec& spec);

}  // namespace phitap

#endif  // PHITAP_SERVER_CHECKPOINT_EXPECTED_TENSORS_H_
