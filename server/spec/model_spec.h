// What a checkpoint's config.json says about the model: all that planning and
// the forward need to know.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_SPEC_MODEL_SPEC_H_
#define PHITAP_SERVER_SPEC_MODEL_SPEC_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/base/dtype.h"

namespace phitap {

// LongRoPE: one factor list for sequences up to the original context, one
// beyond (transformers, modeling_rope_utils).
struct LongRope {
  std::vector<float> short_factor;  // [rotary_dims / 2]
  std::vector<float> long_factor;   // [rotary_dims / 2]
  // Positions below this use the short factors.
  int64_t original_max_positions = 4096;
  // Every cos and sin is multiplied by it: sqrt(1 + ln(factor) / ln(original)),
  // or the config's own.
  double attention_factor = 1.0;
};

struct ModelSpec {
  std::string architecture;  // "Phi3ForCausalLM"
  int64_t num_layers = 0;
  int64_t hidden_size = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  // Dimensions of each head that the rotary turns: the first int(head_dim ·
  // partial_rotary_factor).
  int64_t rotary_dims = 0;
  int64_t intermediate_size = 0;
  int64_t vocab_size = 0;
  int64_t max_positions = 0;
  // A query sees itself and the `window − 1` positions before it; none means
  // all before it.
  std::optional<int64_t> sliding_window;
  double rms_norm_eps = 1e-5;
  std::string hidden_act;  // "silu"
  double rope_theta = 10000.0;
  std::optional<LongRope> longrope;
  bool tied_head = false;
  // As stored; a server flag may compute in another.
  DType dtype = DType::kBF16;
  std::optional<int64_t> bos_id;
  std::optional<int64_t> pad_id;
  // Ids that end generation: generation_config.json's, else config.json's.
  std::vector<int64_t> eos_ids;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_SPEC_MODEL_SPEC_H_
