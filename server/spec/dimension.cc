#include "server/spec/dimension.h"

namespace phitap {

absl::string_view Name(Dimension dimension) {
  switch (dimension) {
    case Dimension::kSeq:
      return "seq";
    case Dimension::kQuery:
      return "query";
    case Dimension::kKey:
      return "key";
    case Dimension::kHiddenSize:
      return "hidden_size";
    case Dimension::kNumHeads:
      return "num_heads";
    case Dimension::kNumKvHeads:
      return "num_kv_heads";
    case Dimension::kHeadDim:
      return "head_dim";
    case Dimension::kQkvWidth:
      return "qkv_width";
    case Dimension::kIntermediateSize:
      return "intermediate_size";
    case Dimension::kGateUpWidth:
      return "gate_up_width";
    case Dimension::kVocabSize:
      return "vocab_size";
    case Dimension::kRotaryDims:
      return "rotary_dims";
    case Dimension::kPair:
      return "pair";
  }
  return "unknown";
}

bool DependsOnPrompt(Dimension dimension) {
  return dimension == Dimension::kSeq || dimension == Dimension::kQuery ||
         dimension == Dimension::kKey;
}

int64_t SizeOf(Dimension dimension, const ModelSpec& spec,
               int64_t token_count) {
  switch (dimension) {
    case Dimension::kSeq:
    case Dimension::kQuery:
    case Dimension::kKey:
      return token_count;
    case Dimension::kHiddenSize:
      return spec.hidden_size;
    case Dimension::kNumHeads:
      return spec.num_heads;
    case Dimension::kNumKvHeads:
      return spec.num_kv_heads;
    case Dimension::kHeadDim:
      return spec.head_dim;
    case Dimension::kQkvWidth:
      return (spec.num_heads + 2 * spec.num_kv_heads) * spec.head_dim;
    case Dimension::kIntermediateSize:
      return spec.intermediate_size;
    case Dimension::kGateUpWidth:
      return 2 * spec.intermediate_size;
    case Dimension::kVocabSize:
      return spec.vocab_size;
    case Dimension::kRotaryDims:
      return spec.rotary_dims;
    case Dimension::kPair:
      return 2;
  }
  return 0;
}

}  // namespace phitap
