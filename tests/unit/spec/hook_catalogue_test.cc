#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "absl/strings/str_replace.h"
#include "server/spec/hook_aliases.h"
#include "server/spec/hook_point.h"
#include "tests/support/model_specs.h"

namespace phitap {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;

struct Expected {
  const char* full_name;
  // In a prompt of 7 tokens of TinyGrouped.
  std::vector<int64_t> shape;
  Access access = Access::kReadWrite;
};

// In forward order; the numbers are worked out by hand.
const Expected kExpected[] = {
    {"input_ids", {7}, Access::kRead},
    {"attention_mask", {7}, Access::kRead},
    {"input_size", {2}, Access::kRead},
    {"token_embeddings", {7, 24}},
    {"rotary_cos", {7, 4}, Access::kRead},
    {"rotary_sin", {7, 4}, Access::kRead},
    {"layers.{i}.layer_input", {7, 24}},
    {"layers.{i}.attention_norm_output", {7, 24}},
    {"layers.{i}.self_attn.attention_qkv", {7, 80}},
    {"layers.{i}.self_attn.attention_queries_pre_rotary", {6, 7, 8}},
    {"layers.{i}.self_attn.attention_keys_pre_rotary", {2, 7, 8}},
    {"layers.{i}.self_attn.attention_queries", {6, 7, 8}},
    {"layers.{i}.self_attn.attention_keys", {2, 7, 8}},
    {"layers.{i}.self_attn.attention_values", {2, 7, 8}},
    {"layers.{i}.self_attn.attention_scores", {6, 7, 7}},
    {"layers.{i}.self_attn.attention_probabilities", {6, 7, 7}},
    {"layers.{i}.self_attn.attention_head_outputs", {7, 6, 8}},
    {"layers.{i}.self_attn.attention_premix", {7, 6, 8}},
    {"layers.{i}.self_attn.attention_output", {7, 24}},
    {"layers.{i}.layer_mid", {7, 24}},
    {"layers.{i}.mlp_norm_output", {7, 24}},
    {"layers.{i}.mlp_input", {7, 24}},
    {"layers.{i}.mlp.mlp_gate_up", {7, 40}},
    {"layers.{i}.mlp.mlp_gate", {7, 20}},
    {"layers.{i}.mlp.mlp_up", {7, 20}},
    {"layers.{i}.mlp.mlp_activation", {7, 20}},
    {"layers.{i}.mlp.mlp_neurons", {7, 20}},
    {"layers.{i}.mlp.mlp_output", {7, 24}},
    {"layers.{i}.layer_output", {7, 24}},
    {"final_norm_output", {7, 24}},
    {"lm_head_output", {7, 50}},
    {"logits", {7, 50}},
    {"next_token_probs", {50}, Access::kRead},
};

std::vector<int64_t> ShapeOf(Hook hook, const ModelSpec& spec,
                             int64_t token_count) {
  std::vector<int64_t> shape;
  for (Dimension dimension : EntryOf(hook).dimensions) {
    shape.push_back(SizeOf(dimension, spec, token_count));
  }
  return shape;
}

TEST(HookCatalogue, ListsEveryHookPointInForwardOrder) {
  ASSERT_EQ(HookCatalogue().size(), std::size(kExpected));
  ASSERT_EQ(kHookCount, static_cast<int>(std::size(kExpected)));
  for (int i = 0; i < kHookCount; ++i) {
    const HookEntry& entry = HookCatalogue()[i];
    EXPECT_EQ(entry.hook, static_cast<Hook>(i));
    EXPECT_EQ(FullNamePattern(entry.hook), kExpected[i].full_name);
    EXPECT_EQ(entry.access, kExpected[i].access) << kExpected[i].full_name;
  }
}

TEST(HookCatalogue, KnowsTheShapeOfEveryValueWithGroupedHeads) {
  for (int i = 0; i < kHookCount; ++i) {
    EXPECT_EQ(ShapeOf(static_cast<Hook>(i), TinyGrouped(), 7),
              kExpected[i].shape)
        << kExpected[i].full_name;
  }
}

TEST(HookCatalogue, KnowsTheShapesOfPhi4Mini) {
  const ModelSpec spec = Phi4Mini();
  EXPECT_THAT(ShapeOf(Hook::kRotaryCos, spec, 3), ElementsAre(3, 96));
  EXPECT_THAT(ShapeOf(Hook::kAttentionQkv, spec, 3), ElementsAre(3, 5120));
  EXPECT_THAT(ShapeOf(Hook::kAttentionKeys, spec, 3), ElementsAre(8, 3, 128));
  EXPECT_THAT(ShapeOf(Hook::kAttentionScores, spec, 3), ElementsAre(24, 3, 3));
  EXPECT_THAT(ShapeOf(Hook::kMlpGateUp, spec, 3), ElementsAre(3, 16384));
}

TEST(HookCatalogue, DescribesEveryHookPointInASentenceOfItsOwn) {
  std::set<std::string> descriptions;
  for (const HookEntry& entry : HookCatalogue()) {
    EXPECT_EQ(entry.description.back(), '.') << entry.name;
    descriptions.insert(std::string(entry.description));
  }
  EXPECT_EQ(descriptions.size(), HookCatalogue().size());
}

TEST(HookCatalogue, GivesEachAliasToOneHookPoint) {
  std::set<std::string> names;
  for (const HookEntry& entry : HookCatalogue()) {
    EXPECT_TRUE(names.insert(FullNamePattern(entry.hook)).second);
    for (absl::string_view alias : entry.aliases) {
      EXPECT_TRUE(names.insert(std::string(alias)).second) << alias;
      // A layer's values need a layer, the model's have none.
      EXPECT_EQ(alias.find("{i}") != absl::string_view::npos,
                HasLayer(entry.hook))
          << alias;
    }
  }
  for (const FalseFriend& other : FalseFriends()) {
    EXPECT_TRUE(names.insert(std::string(other.name)).second) << other.name;
  }
}

TEST(HookCatalogue, TellsTheNamesOfOtherLibraries) {
  EXPECT_THAT(EntryOf(Hook::kLayerOutput).aliases,
              ElementsAre("layers_output[{i}]", "blocks.{i}.hook_resid_post"));
  EXPECT_THAT(EntryOf(Hook::kMlpNeurons).aliases,
              Contains("blocks.{i}.mlp.hook_post"));
}

TEST(HookPoint, HasAFullName) {
  EXPECT_EQ(FullName({Hook::kAttentionKeys, 5}),
            "layers.5.self_attn.attention_keys");
  EXPECT_EQ(FullName({Hook::kLayerMid, 31}), "layers.31.layer_mid");
  EXPECT_EQ(FullName({Hook::kLogits}), "logits");
}

}  // namespace
}  // namespace phitap
