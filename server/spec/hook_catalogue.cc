// The table of hook points. Order, names and layouts are API: see the README.
#include <array>

#include "server/spec/hook_aliases.h"
#include "server/spec/hook_point.h"

namespace phitap {
namespace {

using enum Hook;
using enum Module;
using enum Dimension;

constexpr Access kRead = Access::kRead;
constexpr Access kWrite = Access::kReadWrite;

constexpr absl::string_view kBesideForward =
    "Computed beside the forward from its queries and keys, for this layer "
    "only; under SDPA too.";
constexpr absl::string_view kBeforeRepeat =
    "Key/value head j serves query heads j·H/KV to (j+1)·H/KV − 1 of H heads "
    "over KV.";

std::vector<HookEntry> ModelInputs() {
  return {
      {kInputIds, "input_ids", kModel, {kSeq}, kRead, "Ids of the prompt."},
      {kAttentionMask,
       "attention_mask",
       kModel,
       {kSeq},
       kRead,
       "1 for every position that queries may see, 0 for the hidden ones."},
      {kInputSize,
       "input_size",
       kModel,
       {kPair},
       kRead,
       "1 and the number of tokens."},
      {kTokenEmbeddings,
       "token_embeddings",
       kModel,
       {kSeq, kHiddenSize},
       kWrite,
       "Rows of the embedding: where the residual stream begins."},
      {kRotaryCos,
       "rotary_cos",
       kModel,
       {kSeq, kRotaryDims},
       kRead,
       "Cosines that turn queries and keys, attention factor included."},
      {kRotarySin,
       "rotary_sin",
       kModel,
       {kSeq, kRotaryDims},
       kRead,
       "Sines that turn queries and keys, attention factor included."},
  };
}

std::vector<HookEntry> Attention() {
  return {
      {kLayerInput,
       "layer_input",
       kLayer,
       {kSeq, kHiddenSize},
       kWrite,
       "Residual stream on its way into the block."},
      {kAttentionNormOutput,
       "attention_norm_output",
       kLayer,
       {kSeq, kHiddenSize},
       kWrite,
       "The residual stream after input_layernorm, which attention reads."},
      {kAttentionQkv,
       "attention_qkv",
       kSelfAttn,
       {kSeq, kQkvWidth},
       kWrite,
       "Output of qkv_proj: queries, keys, values, one slice after another, "
       "heads in order within a slice."},
      {kAttentionQueriesPreRotary,
       "attention_queries_pre_rotary",
       kSelfAttn,
       {kNumHeads, kSeq, kHeadDim},
       kWrite,
       "Queries by head, before they are turned."},
      {kAttentionKeysPreRotary,
       "attention_keys_pre_rotary",
       kSelfAttn,
       {kNumKvHeads, kSeq, kHeadDim},
       kWrite,
       "Keys by head, before they are turned.",
       kBeforeRepeat},
      {kAttentionQueries,
       "attention_queries",
       kSelfAttn,
       {kNumHeads, kSeq, kHeadDim},
       kWrite,
       "Queries by head, turned: what attention asks with."},
      {kAttentionKeys,
       "attention_keys",
       kSelfAttn,
       {kNumKvHeads, kSeq, kHeadDim},
       kWrite,
       "Keys by head, turned: what attention compares with.",
       kBeforeRepeat},
      {kAttentionValues,
       "attention_values",
       kSelfAttn,
       {kNumKvHeads, kSeq, kHeadDim},
       kWrite,
       "Values by head: what attention mixes.",
       kBeforeRepeat},
      {kAttentionScores,
       "attention_scores",
       kSelfAttn,
       {kNumHeads, kQuery, kKey},
       kWrite,
       "Scaled and masked products of queries and keys, before the softmax; "
       "keys out of sight are −infinity.",
       kBesideForward},
      {kAttentionProbabilities,
       "attention_probabilities",
       kSelfAttn,
       {kNumHeads, kQuery, kKey},
       kWrite,
       "Softmax of the scores: the weights that values are mixed with.",
       kBesideForward},
      {kAttentionHeadOutputs,
       "attention_head_outputs",
       kSelfAttn,
       {kSeq, kNumHeads, kHeadDim},
       kWrite,
       "Mixed values by head, as attention returns them."},
      {kAttentionPremix,
       "attention_premix",
       kSelfAttn,
       {kSeq, kNumHeads, kHeadDim},
       kWrite,
       "Mixed values by head, as o_proj takes them: the head outputs, one "
       "step later."},
      {kAttentionOutput,
       "attention_output",
       kSelfAttn,
       {kSeq, kHiddenSize},
       kWrite,
       "Output of o_proj: attention's contribution to the residual stream."},
  };
}

std::vector<HookEntry> Mlp() {
  return {
      {kLayerMid,
       "layer_mid",
       kLayer,
       {kSeq, kHiddenSize},
       kWrite,
       "Residual stream with attention's contribution, without the MLP's."},
      {kMlpNormOutput,
       "mlp_norm_output",
       kLayer,
       {kSeq, kHiddenSize},
       kWrite,
       "The residual stream after post_attention_layernorm."},
      {kMlpInput,
       "mlp_input",
       kLayer,
       {kSeq, kHiddenSize},
       kWrite,
       "What the MLP reads: the norm's output, one step later."},
      {kMlpGateUp,
       "mlp_gate_up",
       kMlp,
       {kSeq, kGateUpWidth},
       kWrite,
       "Output of gate_up_proj: the gate half, then the up half."},
      {kMlpGate,
       "mlp_gate",
       kMlp,
       {kSeq, kIntermediateSize},
       kWrite,
       "Gate of each neuron, before the activation function."},
      {kMlpUp,
       "mlp_up",
       kMlp,
       {kSeq, kIntermediateSize},
       kWrite,
       "Up projection of each neuron."},
      {kMlpActivation,
       "mlp_activation",
       kMlp,
       {kSeq, kIntermediateSize},
       kWrite,
       "Activation function of the gate."},
      {kMlpNeurons,
       "mlp_neurons",
       kMlp,
       {kSeq, kIntermediateSize},
       kWrite,
       "Activated gate times up: each neuron's output, which down_proj reads."},
      {kMlpOutput,
       "mlp_output",
       kMlp,
       {kSeq, kHiddenSize},
       kWrite,
       "Output of down_proj: the MLP's contribution to the residual stream."},
      {kLayerOutput,
       "layer_output",
       kLayer,
       {kSeq, kHiddenSize},
       kWrite,
       "Residual stream on its way out of the block."},
  };
}

std::vector<HookEntry> ModelOutputs() {
  return {
      {kFinalNormOutput,
       "final_norm_output",
       kModel,
       {kSeq, kHiddenSize},
       kWrite,
       "The last residual stream after the final norm: what the head reads."},
      {kLmHeadOutput,
       "lm_head_output",
       kModel,
       {kSeq, kVocabSize},
       kWrite,
       "Output of the head."},
      {kLogits,
       "logits",
       kModel,
       {kSeq, kVocabSize},
       kWrite,
       "Scores of the next token: the head's output, which nothing follows on "
       "this family."},
      {kNextTokenProbs,
       "next_token_probs",
       kModel,
       {kVocabSize},
       kRead,
       "Softmax, in float32, of the last position's logits.",
       "float32 whatever the model computes in."},
  };
}

std::vector<HookEntry> BuildCatalogue() {
  std::vector<HookEntry> catalogue;
  for (auto part : {ModelInputs, Attention, Mlp, ModelOutputs}) {
    for (HookEntry& entry : part()) catalogue.push_back(std::move(entry));
  }
  for (const HookAlias& alias : HookAliases()) {
    catalogue[static_cast<size_t>(alias.hook)].aliases.push_back(alias.name);
  }
  return catalogue;
}

}  // namespace

absl::Span<const HookEntry> HookCatalogue() {
  static const auto& catalogue = *new std::vector<HookEntry>(BuildCatalogue());
  return catalogue;
}

const HookEntry& EntryOf(Hook hook) {
  return HookCatalogue()[static_cast<size_t>(hook)];
}

}  // namespace phitap
