// Where in a run's layers × positions its writes begin to be felt, and where
// what is asked of it begins.
#include <gmock/gmock.h>

#include <map>

#include "server/plan/sharing/extents.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/plan/edits.h"

namespace phitap {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Of a model of four layers, hook points of layers in layer 2, at positions 3
// and 2: the first layer that a write there is felt in. −1: nothing is written
// there.
struct Felt {
  const char* hook_point;
  int first_layer;
};
constexpr Felt kFelt[] = {
    {"input_ids", -1},
    {"attention_mask", -1},
    {"input_size", -1},
    {"token_embeddings", 0},
    {"rotary_cos", -1},
    {"rotary_sin", -1},
    {"layers.2.layer_input", 2},
    {"layers.2.attention_norm_output", 2},
    {"layers.2.self_attn.attention_qkv", 2},
    {"layers.2.self_attn.attention_queries_pre_rotary", 2},
    {"layers.2.self_attn.attention_keys_pre_rotary", 2},
    {"layers.2.self_attn.attention_queries", 2},
    {"layers.2.self_attn.attention_keys", 2},
    {"layers.2.self_attn.attention_values", 2},
    {"layers.2.self_attn.attention_scores", 2},
    {"layers.2.self_attn.attention_probabilities", 2},
    {"layers.2.self_attn.attention_head_outputs", 2},
    {"layers.2.self_attn.attention_premix", 2},
    {"layers.2.self_attn.attention_output", 2},
    {"layers.2.layer_mid", 2},
    {"layers.2.mlp_norm_output", 2},
    {"layers.2.mlp_input", 2},
    {"layers.2.mlp.mlp_gate_up", 2},
    {"layers.2.mlp.mlp_gate", 2},
    {"layers.2.mlp.mlp_up", 2},
    {"layers.2.mlp.mlp_activation", 2},
    {"layers.2.mlp.mlp_neurons", 2},
    {"layers.2.mlp.mlp_output", 2},
    {"layers.2.layer_output", 3},
    {"final_norm_output", 4},
    {"lm_head_output", 4},
    {"logits", 4},
    {"next_token_probs", -1},
};

std::string NameOf(Hook hook) {
  return FullName({hook, HasLayer(hook) ? 2 : -1});
}

bool HasQueries(const std::string& hook_point) {
  return hook_point.ends_with("attention_scores") ||
         hook_point.ends_with("attention_probabilities");
}

TEST(WriteExtent, BeginsWhereEveryHookPointIsFelt) {
  ASSERT_EQ(std::size(kFelt), static_cast<size_t>(kHookCount));
  for (int i = 0; i < kHookCount; ++i) {
    const Felt& felt = kFelt[i];
    ASSERT_EQ(felt.hook_point, NameOf(static_cast<Hook>(i)));
    const bool queries = HasQueries(felt.hook_point);
    const auto plan = Plan(EditedAt(
        felt.hook_point,
        absl::StrCat("selection { ", queries ? "queries" : "positions",
                     " { indices: [3, 2] } } set { value { number: 0 } }")));
    ASSERT_EQ(plan.ok(), felt.first_layer >= 0) << felt.hook_point;
    if (!plan.ok()) continue;
    EXPECT_THAT((*plan)->runs[0].sharing.writes, IsEmpty());
    ASSERT_EQ((*plan)->runs[1].sharing.writes.size(), 1u) << felt.hook_point;
    const WriteExtent& extent = (*plan)->runs[1].sharing.writes[0];
    EXPECT_EQ(extent.write, 0);
    EXPECT_EQ(extent.first_layer, felt.first_layer) << felt.hook_point;
    EXPECT_EQ(extent.first_position, 2) << felt.hook_point;
    EXPECT_TRUE(extent.is_static()) << felt.hook_point;
    EXPECT_FALSE(extent.mixes_positions) << felt.hook_point;
  }
}

TEST(WriteExtent, BeginsAtTheFirstPositionWhereAllAreWritten) {
  for (const Felt& felt : kFelt) {
    if (felt.first_layer < 0) continue;
    const std::string set = " set { value { number: 0 } }";
    const auto all = Plan(EditedAt(felt.hook_point, set));
    ASSERT_THAT(all, IsOk()) << felt.hook_point;
    EXPECT_EQ((*all)->runs[1].sharing.writes[0].first_position, 0);
    if (!HasQueries(felt.hook_point)) continue;
    // Keys say nothing about the queries that meet them.
    const auto keys = Plan(
        EditedAt(felt.hook_point, "selection { keys { indices: 3 } }" + set));
    ASSERT_THAT(keys, IsOk()) << felt.hook_point;
    EXPECT_EQ((*keys)->runs[1].sharing.writes[0].first_position, 0);
  }
}

TEST(WriteExtent, ListsThePromptsWritesInForwardOrder) {
  const auto plan = Plan(
      "runs { prompt { text: 'abcde' } generation { max_tokens: 3 } "
      "interventions { hook_points: 'layers.2.mlp_input' set { value { number: "
      "1 } } } interventions { hook_points: 'layers.1.layer_output' selection "
      "{ "
      "steps { indices: [1, 2] } } set { value { number: 2 } } } interventions "
      "{ hook_points: 'layers.0.layer_output' selection { positions { indices: "
      "4 } } set { value { number: 3 } } } interventions { hook_points: "
      "'layers.0.layer_output' set { value { number: 4 } } } interventions { "
      "hook_points: 'layers.1.layer_input' set { value { number: 5 } } } }");
  ASSERT_THAT(plan, IsOk());
  std::vector<int> writes;
  for (const WriteExtent& extent : (*plan)->runs[0].sharing.writes) {
    writes.push_back(extent.write);
  }
  EXPECT_THAT(writes, ElementsAre(2, 3, 4, 0));
}

RunSharing SharingOf(const std::string& request) {
  const auto plan = Plan(request);
  EXPECT_THAT(plan, IsOk()) << request;
  return plan.ok() ? (*plan)->runs[0].sharing : RunSharing();
}

Corner AskedOf(const RunSharing& sharing) {
  return {.layer = sharing.first_asked_layer,
          .position = sharing.first_asked_position};
}

TEST(RunSharing, SaysFromWhereOnEveryHookPointIsAsked) {
  for (const Felt& felt : kFelt) {
    const std::string name = felt.hook_point;
    const HookPoint point = ParseHookPoints(name, TinySpec(), "name")->front();
    const bool queries = HasQueries(name);
    const bool is_input = !HasLayer(point.hook) && point.layer < 0 &&
                          point.hook < Hook::kFinalNormOutput;
    const bool has_seq =
        name != "input_size" && name != "next_token_probs" && !queries;
    const RunSharing sharing = SharingOf(
        absl::StrCat(kFiveTokens, "captures { hook_points: '", name, "' ",
                     queries   ? "selection { queries { indices: [3, 2] } }"
                     : has_seq ? "selection { positions { indices: [3, 2] } }"
                               : "",
                     "}"));
    Corner expected = {.layer = felt.first_layer, .position = 2};
    if (is_input) expected = {};
    if (name == "next_token_probs") expected = {.layer = 4, .position = 4};
    EXPECT_EQ(AskedOf(sharing).layer, expected.layer) << name;
    EXPECT_EQ(AskedOf(sharing).position, expected.position) << name;
    EXPECT_EQ(sharing.owns_last_position, name == "next_token_probs") << name;
  }
}

TEST(RunSharing, AsksForWhatGenerationReadsAndNodesNeed) {
  const RunSharing generating = SharingOf(
      "runs { prompt { text: 'abcde' } generation { max_tokens: 3 } }"
      "captures { hook_points: 'layers.0.layer_output' selection { steps { "
      "indices: 1 } } }");
  EXPECT_EQ(AskedOf(generating), (Corner{.layer = 4, .position = 4}));
  EXPECT_TRUE(generating.owns_last_position);

  const RunSharing read = SharingOf(
      "runs { label: 'a' prompt { text: 'abcde' } } runs { prompt { text: "
      "'abcde' } interventions { hook_points: 'layers.3.layer_mid' selection { "
      "positions { indices: 3 } } set { value { run { run: 'a' } } } } } "
      "captures { hook_points: 'logits' selection { positions { indices: 4 } } "
      "}");
  EXPECT_EQ(AskedOf(read), (Corner{.layer = 3, .position = 3}));
  EXPECT_FALSE(read.owns_last_position);
}

// Where it is shown counts: the input of a layer at the layer before, unless
// it is edited there.
TEST(RunSharing, AsksForALayersInputWhereItIsShown) {
  const std::string capture =
      "captures { hook_points: 'layers.2.layer_input' selection { positions { "
      "indices: 1 } } }";
  EXPECT_EQ(AskedOf(SharingOf(kFiveTokens + capture)),
            (Corner{.layer = 2, .position = 1}));
  EXPECT_EQ(AskedOf(SharingOf(absl::StrCat(
                "runs { prompt { text: 'abcde' } interventions { hook_points: "
                "'layers.2.layer_input' scale { value { number: 2 } } } }",
                capture))),
            (Corner{.layer = 2, .position = 1}));
}

TEST(RunSharing, AsksNothingBeforeTheHeadWhereNothingIsRead) {
  const auto plan = Plan(
      "runs { prompt { text: 'abcde' } } runs { label: 'b' prompt { text: "
      "'abcde' } } captures { runs: 'b' hook_points: 'logits' }");
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(AskedOf((*plan)->runs[0].sharing),
            (Corner{.layer = 4, .position = 5}));
}

TEST(RunSharing, IsForRunsThatWavesAndCallersMayShare) {
  const std::string asks = absl::StrCat(kFiveTokens, kLogits);
  EXPECT_TRUE(SharingOf(asks).allowed);
  EXPECT_FALSE(
      SharingOf(asks + "options { numerics: NUMERICS_TRANSFORMERS }").allowed);
  EXPECT_FALSE(SharingOf(asks + "options { isolate: true }").allowed);
  PlanContext alone = TinyContext();
  alone.wave_sharing = WaveSharing::kAlone;
  const auto plan = Plan(asks, alone);
  ASSERT_THAT(plan, IsOk());
  EXPECT_FALSE((*plan)->runs[0].sharing.allowed);
}

TEST(RunSharing, IsNotForALatchedRunNorOneOfGradientsAlone) {
  const auto latched = Plan(
      "runs { label: 'a' prompt { text: 'abcde' } generation { max_tokens: 3 } "
      "interventions { hook_points: 'layers.3.layer_output' set { value { "
      "number: 0 } } when: 'seen' selection { steps { ranges {} } } } } runs { "
      "label: 'b' prompt { text: 'abcde' } } program { nodes { name: 'x' read "
      "{ "
      "run: 'a' hook_point: 'layers.1.layer_output' selection { positions { "
      "indices: -1 } features { indices: 0 } } } } nodes { name: 'seen' "
      "inputs: "
      "'x' latch {} } } captures { runs: 'b' hook_points: 'logits' }");
  ASSERT_THAT(latched, IsOk());
  EXPECT_FALSE((*latched)->runs[0].sharing.allowed);
  EXPECT_TRUE((*latched)->runs[1].sharing.allowed);
  const std::string gradient =
      "runs { label: 'a' prompt { text: 'abcde' } } gradients { of { run: 'a' "
      "logit { token_id: 3 } } hook_points: 'layers.1.layer_output' } ";
  EXPECT_FALSE(SharingOf(gradient).allowed);
  EXPECT_TRUE(
      SharingOf(gradient + "captures { hook_points: 'layers.0.layer_output' }")
          .allowed);
}

TEST(RunSharing, KnowsWhichFactorsALongPromptTakes) {
  ModelSpec spec = TinySpec();
  spec.longrope = LongRope{.original_max_positions = 5};
  PlanContext context = {
      .model = "tiny", .spec = spec, .encode = EncodeLetters};
  const auto plan = Plan(
      absl::StrCat("runs { label: 'a' prompt { text: 'abcde' } } runs { label: "
                   "'b' prompt { text: 'abcdef' } } runs { label: 'c' prompt { "
                   "text: 'abc' position_ids: [0, 5, 1] } } runs { label: 'd' "
                   "prompt { text: 'abc' position_ids: [0, 4, 1] } }",
                   kLogits),
      context);
  ASSERT_THAT(plan, IsOk());
  EXPECT_FALSE((*plan)->runs[0].sharing.long_factors);
  EXPECT_TRUE((*plan)->runs[1].sharing.long_factors);
  EXPECT_TRUE((*plan)->runs[2].sharing.long_factors);
  EXPECT_FALSE((*plan)->runs[3].sharing.long_factors);
  EXPECT_FALSE(SharingOf(absl::StrCat(kFiveTokens, kLogits)).long_factors);
}

}  // namespace
}  // namespace phitap
