// The table of hook points. Order, names and layouts are API: see the README.
#include <algorithm>
#include <initializer_list>

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

// The dimensions of a value, up to three.
struct Layout {
  constexpr Layout(std::initializer_list<Dimension> dimensions)
      : rank(dimensions.size()) {
    std::copy(dimensions.begin(), dimensions.end(), sizes);
  }
  Dimension sizes[3] = {};
  size_t rank;
};
constexpr Layout kTokens = {kSeq};
constexpr Layout kSizes = {kPair};
constexpr Layout kResidual = {kSeq, kHiddenSize};
constexpr Layout kAngles = {kSeq, kRotaryDims};
constexpr Layout kQkv = {kSeq, kQkvWidth};
constexpr Layout kByHead = {kNumHeads, kSeq, kHeadDim};
constexpr Layout kByKvHead = {kNumKvHeads, kSeq, kHeadDim};
constexpr Layout kPattern = {kNumHeads, kQuery, kKey};
constexpr Layout kHeadsLast = {kSeq, kNumHeads, kHeadDim};
constexpr Layout kGateUp = {kSeq, kGateUpWidth};
constexpr Layout kNeurons = {kSeq, kIntermediateSize};
constexpr Layout kVocabulary = {kSeq, kVocabSize};
constexpr Layout kDistribution = {kVocabSize};

struct Row {
  Hook hook;
  absl::string_view name;
  Module module;
  Layout layout;
  Access access;
  absl::string_view description;
  absl::string_view condition = "";
};

constexpr Row kRows[] = {
    {kInputIds, "input_ids", kModel, kTokens, kRead, "Ids of the prompt."},
    {kAttentionMask, "attention_mask", kModel, kTokens, kRead,
     "1 for every position that queries may see, 0 for the hidden ones."},
    {kInputSize, "input_size", kModel, kSizes, kRead,
     "1 and the number of tokens."},
    {kTokenEmbeddings, "token_embeddings", kModel, kResidual, kWrite,
     "Rows of the embedding: where the residual stream begins."},
    {kRotaryCos, "rotary_cos", kModel, kAngles, kRead,
     "Cosines that turn queries and keys, attention factor included."},
    {kRotarySin, "rotary_sin", kModel, kAngles, kRead,
     "Sines that turn queries and keys, attention factor included."},
    {kLayerInput, "layer_input", kLayer, kResidual, kWrite,
     "Residual stream on its way into the block."},
    {kAttentionNormOutput, "attention_norm_output", kLayer, kResidual, kWrite,
     "The residual stream after input_layernorm, which attention reads."},
    {kAttentionQkv, "attention_qkv", kSelfAttn, kQkv, kWrite,
     "Output of qkv_proj: queries, keys, values, one slice after another, "
     "heads in order within a slice."},
    {kAttentionQueriesPreRotary, "attention_queries_pre_rotary", kSelfAttn,
     kByHead, kWrite, "Queries by head, before they are turned."},
    {kAttentionKeysPreRotary, "attention_keys_pre_rotary", kSelfAttn, kByKvHead,
     kWrite, "Keys by head, before they are turned.", kBeforeRepeat},
    {kAttentionQueries, "attention_queries", kSelfAttn, kByHead, kWrite,
     "Queries by head, turned: what attention asks with."},
    {kAttentionKeys, "attention_keys", kSelfAttn, kByKvHead, kWrite,
     "Keys by head, turned: what attention compares with.", kBeforeRepeat},
    {kAttentionValues, "attention_values", kSelfAttn, kByKvHead, kWrite,
     "Values by head: what attention mixes.", kBeforeRepeat},
    {kAttentionScores, "attention_scores", kSelfAttn, kPattern, kWrite,
     "Scaled and masked products of queries and keys, before the softmax; "
     "keys out of sight are −infinity (in numerics TRANSFORMERS, what its "
     "additive mask makes of them).",
     kBesideForward},
    {kAttentionProbabilities, "attention_probabilities", kSelfAttn, kPattern,
     kWrite, "Softmax of the scores: the weights that values are mixed with.",
     kBesideForward},
    {kAttentionHeadOutputs, "attention_head_outputs", kSelfAttn, kHeadsLast,
     kWrite, "Mixed values by head, as attention returns them."},
    {kAttentionPremix, "attention_premix", kSelfAttn, kHeadsLast, kWrite,
     "Mixed values by head, as o_proj takes them: the head outputs, one "
     "step later."},
    {kAttentionOutput, "attention_output", kSelfAttn, kResidual, kWrite,
     "Output of o_proj: attention's contribution to the residual stream."},
    {kLayerMid, "layer_mid", kLayer, kResidual, kWrite,
     "Residual stream with attention's contribution, without the MLP's."},
    {kMlpNormOutput, "mlp_norm_output", kLayer, kResidual, kWrite,
     "The residual stream after post_attention_layernorm."},
    {kMlpInput, "mlp_input", kLayer, kResidual, kWrite,
     "What the MLP reads: the norm's output, one step later."},
    {kMlpGateUp, "mlp_gate_up", kMlp, kGateUp, kWrite,
     "Output of gate_up_proj: the gate half, then the up half."},
    {kMlpGate, "mlp_gate", kMlp, kNeurons, kWrite,
     "Gate of each neuron, before the activation function."},
    {kMlpUp, "mlp_up", kMlp, kNeurons, kWrite, "Up projection of each neuron."},
    {kMlpActivation, "mlp_activation", kMlp, kNeurons, kWrite,
     "Activation function of the gate."},
    {kMlpNeurons, "mlp_neurons", kMlp, kNeurons, kWrite,
     "Activated gate times up: each neuron's output, which down_proj reads."},
    {kMlpOutput, "mlp_output", kMlp, kResidual, kWrite,
     "Output of down_proj: the MLP's contribution to the residual stream."},
    {kLayerOutput, "layer_output", kLayer, kResidual, kWrite,
     "Residual stream on its way out of the block."},
    {kFinalNormOutput, "final_norm_output", kModel, kResidual, kWrite,
     "The last residual stream after the final norm: what the head reads."},
    {kLmHeadOutput, "lm_head_output", kModel, kVocabulary, kWrite,
     "Output of the head."},
    {kLogits, "logits", kModel, kVocabulary, kWrite,
     "Scores of the next token: the head's output, which nothing follows on "
     "this family."},
    {kNextTokenProbs, "next_token_probs", kModel, kDistribution, kRead,
     "Softmax, in float32, of the last position's logits.",
     "float32 whatever the model computes in."},
};

std::vector<HookEntry> BuildCatalogue() {
  std::vector<HookEntry> catalogue;
  for (const Row& row : kRows) {
    const Dimension* sizes = row.layout.sizes;
    catalogue.push_back({.hook = row.hook,
                         .name = row.name,
                         .module = row.module,
                         .dimensions = {sizes, sizes + row.layout.rank},
                         .access = row.access,
                         .description = row.description,
                         .condition = row.condition});
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
