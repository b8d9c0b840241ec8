#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "server/base/field_error.h"
#include "server/spec/hook_point.h"
#include "tests/support/model_specs.h"
#include "tests/support/status_matchers.h"

namespace phitap {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

absl::StatusOr<std::vector<HookPoint>> Parse(absl::string_view text) {
  return ParseHookPoints(text, Phi3Mini4k(), "captures[0].hook_points");
}

// Layers of a set of `hook`; {-100} where the text is refused or another hook.
std::vector<int> LayersOf(absl::string_view text, Hook hook) {
  const auto points = Parse(text);
  if (!points.ok()) return {-100};
  std::vector<int> layers;
  for (HookPoint point : *points) {
    layers.push_back(point.hook == hook ? point.layer : -100);
  }
  return layers;
}

TEST(ParseHookPoints, ReadsEveryNameOfTheCatalogue) {
  for (const HookEntry& entry : HookCatalogue()) {
    const std::vector<int> layer = {HasLayer(entry.hook) ? 7 : -1};
    auto at_seven = [](absl::string_view pattern) {
      return absl::StrReplaceAll(pattern, {{"{i}", "7"}});
    };
    const std::string full = at_seven(FullNamePattern(entry.hook));
    EXPECT_EQ(LayersOf(full, entry.hook), layer) << full;
    EXPECT_EQ(LayersOf("model." + full, entry.hook), layer) << full;
    for (absl::string_view alias : entry.aliases) {
      EXPECT_EQ(LayersOf(at_seven(alias), entry.hook), layer) << alias;
    }
    if (!HasLayer(entry.hook)) continue;
    for (absl::string_view pattern :
         {"layers.7.", "layers[7].", "model.layers.7.", "model.layers[7]."}) {
      const std::string brief = absl::StrCat(pattern, entry.name);
      EXPECT_EQ(LayersOf(brief, entry.hook), layer) << brief;
    }
  }
}

TEST(ParseHookPoints, ReadsWhatItsFullNameSays) {
  for (const HookEntry& entry : HookCatalogue()) {
    const HookPoint point = {entry.hook, HasLayer(entry.hook) ? 30 : -1};
    const auto points = Parse(FullName(point));
    ASSERT_THAT(points, IsOk());
    EXPECT_THAT(*points, ElementsAre(point));
  }
}

TEST(ParseHookPoints, ReadsSetsOfLayersAscendingWithoutRepeats) {
  const Hook hook = Hook::kMlpNeurons;
  EXPECT_THAT(LayersOf("layers.*.mlp_neurons", hook), SizeIs(32));
  EXPECT_THAT(LayersOf("layers.8-11.mlp_neurons", hook),
              ElementsAre(8, 9, 10, 11));
  EXPECT_THAT(LayersOf("layers.3-3.mlp.mlp_neurons", hook), ElementsAre(3));
  EXPECT_THAT(LayersOf("layers.{31,0,8-10,9}.mlp_neurons", hook),
              ElementsAre(0, 8, 9, 10, 31));
  EXPECT_THAT(LayersOf("layers.-1.mlp_neurons", hook), ElementsAre(31));
  EXPECT_THAT(LayersOf("layers.-3--2.mlp_neurons", hook), ElementsAre(29, 30));
  EXPECT_THAT(LayersOf("layers.30--1.mlp_neurons", hook), ElementsAre(30, 31));
  EXPECT_THAT(LayersOf("layers.{-1,31,0}.mlp_neurons", hook),
              ElementsAre(0, 31));
  EXPECT_THAT(LayersOf("layers.{5}.mlp_neurons", hook), ElementsAre(5));
}

TEST(ParseHookPoints, ReadsSetsOfAliases) {
  EXPECT_THAT(LayersOf("blocks.*.hook_resid_post", Hook::kLayerOutput),
              SizeIs(32));
  EXPECT_THAT(LayersOf("layers_output[*]", Hook::kLayerOutput), SizeIs(32));
  EXPECT_THAT(LayersOf("layers_output[-1]", Hook::kLayerOutput),
              ElementsAre(31));
  EXPECT_THAT(
      LayersOf("blocks.{1,4-5}.attn.hook_z", Hook::kAttentionHeadOutputs),
      ElementsAre(1, 4, 5));
}

TEST(ParseHookPoints, TellsGatesFromTheirNeighbours) {
  EXPECT_THAT(LayersOf("blocks.2.mlp.hook_pre", Hook::kMlpGate),
              ElementsAre(2));
  EXPECT_THAT(LayersOf("blocks.2.mlp.hook_pre_linear", Hook::kMlpUp),
              ElementsAre(2));
  EXPECT_THAT(LayersOf("layers.2.mlp_gate_up", Hook::kMlpGateUp),
              ElementsAre(2));
}

struct Refusal {
  std::string text;
  const char* message;
};

TEST(ParseHookPoints, RefusesWhatIsNoHookPoint) {
  const Refusal refusals[] = {
      {"", "no hook point is named"},
      {"layers.5.layer_ouput",
       "nearest are layers.5.layer_output, layers.5.layer_input, "},
      {"logit", "nearest are logits"},
      {"layers.5.mlp.attention_keys",
       "is in the wrong place; valid: layers.5.self_attn.attention_keys"},
      {"layers.5.attention_patern", "there is no hook point"},
      {"blocks.5.hook_resid_pst", "nearest are blocks.5.hook_resid_post"},
      {"layers.32.layer_output",
       "layer 32 is past the last; valid: 0 to 31, or -1 (the last) to -32"},
      {"layers.-33.layer_output", "layer -33 is before the first"},
      {"layers.0-40.layer_output", "layer 40 is past the last"},
      {"layers.{0,99}.layer_output", "layer 99 is past the last"},
      {"layers.9-8.layer_output", "range \"9-8\" descends"},
      {"layers.{}.layer_output", "is not a set of layers"},
      {"layers.{1,}.layer_output", "is not a set of layers"},
      {"layers.{1,2.layer_output", "is not a set of layers"},
      {"layers.1,2.layer_output", "is not a set of layers"},
      {"layers.1}.layer_output", "is not a set of layers"},
      {"layers.five.layer_output", "\"five\" is not a set of layers"},
      {"layers.1-.layer_output", "is not a set of layers"},
      {"layers.--1.layer_output", "is not a set of layers"},
      {"layers.99999999999999999999.layer_output", "is not a set of layers"},
      {"layers..layer_output",
       "is in the wrong place; valid: layers.{i}.layer_output"},
      {"layer_output", "needs a layer; valid: layers.5.layer_output"},
      {"attention_keys", "valid: layers.5.self_attn.attention_keys"},
      {"layers.5.logits", "belongs to the whole model; valid: logits"},
      {"layers.5", "there is no hook point"},
      {"*", "there is no hook point"},
      {" logits", "nearest are logits"},
      {"Logits", "nearest are logits"},
      {"blocks.5.attn.hook_q",
       "is laid out [position, head, dimension] in TransformerLens, and "
       "[head, position, dimension] here; valid: "
       "layers.5.self_attn.attention_queries_pre_rotary"},
      {"blocks.*.attn.hook_rot_k", "valid: layers.*.self_attn.attention_keys"},
      {"ln_final.hook_normalized",
       "before the norm's weight in TransformerLens, and after it here; valid: "
       "final_norm_output"},
  };
  for (const Refusal& refusal : refusals) {
    const auto points = Parse(refusal.text);
    EXPECT_THAT(points, StatusIs(kInvalid, HasSubstr(refusal.message)))
        << refusal.text;
    EXPECT_EQ(FieldOf(points.status()), "captures[0].hook_points");
  }
}

TEST(ParseHookPoints, AnswersALongTextWithAShortMessage) {
  const std::string filler(1 << 20, '7');
  for (const std::string& text : {filler, "layers." + filler + ".layer_output",
                                  "layers." + filler + ".mlp.layer_output",
                                  "blocks." + filler + ".attn.hook_q"}) {
    const auto points = Parse(text);
    EXPECT_THAT(points, StatusIs(kInvalid, HasSubstr("777…\"")));
    EXPECT_LT(points.status().message().size(), 500u);
  }
}

TEST(ParseHookPoints, TakesALongSet) {
  std::string layers = "0";
  for (int i = 0; i < 100000; ++i) layers += ",31";
  EXPECT_THAT(
      LayersOf("layers.{" + layers + "}.layer_output", Hook::kLayerOutput),
      ElementsAre(0, 31));
}

}  // namespace
}  // namespace phitap
