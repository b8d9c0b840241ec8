#include "server/checkpoint/expected_tensors.h"

#include "absl/strings/str_cat.h"

namespace phitap {

std::string LayerTensorName(int64_t layer, absl::string_view part) {
  return absl::StrCat("model.layers.", layer, ".", part, ".weight");
}

std::vector<ExpectedTensor> ExpectedTensors(const ModelSpec& spec) {
  const int64_t hidden = spec.hidden_size;
  const int64_t queries = spec.num_heads * spec.head_dim;
  const int64_t keys = spec.num_kv_heads * spec.head_dim;
  const int64_t inner = spec.intermediate_size;

  std::vector<ExpectedTensor> tensors;
  tensors.push_back({kEmbeddingName, {spec.vocab_size, hidden}});
  for (int64_t layer = 0; layer < spec.num_layers; ++layer) {
    const auto add = [&](absl::string_view part, std::vector<int64_t> shape) {
      tensors.push_back({LayerTensorName(layer, part), std::move(shape)});
    };
    add("input_layernorm", {hidden});
    // Queries, keys and values in one matrix, in this order.
    add("self_attn.qkv_proj", {queries + 2 * keys, hidden});
    add("self_attn.o_proj", {hidden, queries});
    add("post_attention_layernorm", {hidden});
    // Gate above up.
    add("mlp.gate_up_proj", {2 * inner, hidden});
    add("mlp.down_proj", {hidden, inner});
  }
  tensors.push_back({kFinalNormName, {hidden}});
  tensors.push_back({kHeadName, {spec.vocab_size, hidden}});
  return tensors;
}

}  // namespace phitap
