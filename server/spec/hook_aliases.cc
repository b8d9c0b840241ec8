#include "server/spec/hook_aliases.h"

namespace phitap {
namespace {

constexpr HookAlias kAliases[] = {
    // nnterp
    {Hook::kLayerInput, "layers_input[{i}]"},
    {Hook::kLayerOutput, "layers_output[{i}]"},
    {Hook::kAttentionOutput, "attentions_output[{i}]"},
    {Hook::kMlpOutput, "mlps_output[{i}]"},
    {Hook::kAttentionProbabilities, "attention_probabilities[{i}]"},
    // TransformerLens
    {Hook::kTokenEmbeddings, "hook_embed"},
    {Hook::kLayerInput, "blocks.{i}.hook_resid_pre"},
    {Hook::kLayerMid, "blocks.{i}.hook_resid_mid"},
    {Hook::kLayerOutput, "blocks.{i}.hook_resid_post"},
    {Hook::kAttentionScores, "blocks.{i}.attn.hook_attn_scores"},
    {Hook::kAttentionProbabilities, "blocks.{i}.attn.hook_pattern"},
    {Hook::kAttentionHeadOutputs, "blocks.{i}.attn.hook_z"},
    {Hook::kAttentionOutput, "blocks.{i}.hook_attn_out"},
    {Hook::kMlpGate, "blocks.{i}.mlp.hook_pre"},
    {Hook::kMlpUp, "blocks.{i}.mlp.hook_pre_linear"},
    {Hook::kMlpNeurons, "blocks.{i}.mlp.hook_post"},
    {Hook::kMlpOutput, "blocks.{i}.hook_mlp_out"},
};

constexpr absl::string_view kPositionFirst =
    "is laid out [position, head, dimension] in TransformerLens, and "
    "[head, position, dimension] here";
constexpr absl::string_view kWithoutWeight =
    "is taken before the norm's weight in TransformerLens, and after it here";

constexpr FalseFriend kFalseFriends[] = {
    {"blocks.{i}.attn.hook_q", Hook::kAttentionQueriesPreRotary,
     kPositionFirst},
    {"blocks.{i}.attn.hook_k", Hook::kAttentionKeysPreRotary, kPositionFirst},
    {"blocks.{i}.attn.hook_v", Hook::kAttentionValues, kPositionFirst},
    {"blocks.{i}.attn.hook_rot_q", Hook::kAttentionQueries, kPositionFirst},
    {"blocks.{i}.attn.hook_rot_k", Hook::kAttentionKeys, kPositionFirst},
    {"blocks.{i}.ln1.hook_normalized", Hook::kAttentionNormOutput,
     kWithoutWeight},
    {"blocks.{i}.ln2.hook_normalized", Hook::kMlpNormOutput, kWithoutWeight},
    {"ln_final.hook_normalized", Hook::kFinalNormOutput, kWithoutWeight},
};

}  // namespace

absl::Span<const HookAlias> HookAliases() { return kAliases; }

absl::Span<const FalseFriend> FalseFriends() { return kFalseFriends; }

}  // namespace phitap
