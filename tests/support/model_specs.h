// Specifications of the family's kinds of checkpoint.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_TESTS_SUPPORT_MODEL_SPECS_H_
#define PHITAP_TESTS_SUPPORT_MODEL_SPECS_H_

#include <vector>

#include "server/spec/model_spec.h"

namespace phitap {

// microsoft/Phi-3-mini-4k-instruct.
inline ModelSpec Phi3Mini4k() {
  return {.architecture = "Phi3ForCausalLM",
          .num_layers = 32,
          .hidden_size = 3072,
          .num_heads = 32,
          .num_kv_heads = 32,
          .head_dim = 96,
          .rotary_dims = 96,
          .intermediate_size = 8192,
          .vocab_size = 32064,
          .max_positions = 4096,
          .sliding_window = 2047,
          .hidden_act = "silu",
          .bos_id = 1,
          .pad_id = 32000,
          .eos_ids = {32000, 32001, 32007}};
}

// microsoft/Phi-4-mini-instruct: grouped heads, partial rotary, longrope, tied.
inline ModelSpec Phi4Mini() {
  return {.architecture = "Phi3ForCausalLM",
          .num_layers = 32,
          .hidden_size = 3072,
          .num_heads = 24,
          .num_kv_heads = 8,
          .head_dim = 128,
          .rotary_dims = 96,
          .intermediate_size = 8192,
          .vocab_size = 200064,
          .max_positions = 131072,
          .sliding_window = 262144,
          .hidden_act = "silu",
          .longrope = LongRope{.short_factor = std::vector<float>(48, 1.0f),
                               .long_factor = std::vector<float>(48, 2.0f),
                               .original_max_positions = 4096,
                               .attention_factor = 1.1902380714238083},
          .tied_head = true,
          .bos_id = 199999,
          .eos_ids = {200020, 199999}};
}

// Four layers in which no two widths are equal.
inline ModelSpec TinyGrouped() {
  return {.architecture = "Phi3ForCausalLM",
          .num_layers = 4,
          .hidden_size = 24,
          .num_heads = 6,
          .num_kv_heads = 2,
          .head_dim = 8,
          .rotary_dims = 4,
          .intermediate_size = 20,
          .vocab_size = 50,
          .max_positions = 64,
          .sliding_window = 5,
          .hidden_act = "silu"};
}

}  // namespace phitap

#endif  // PHITAP_TESTS_SUPPORT_MODEL_SPECS_H_
