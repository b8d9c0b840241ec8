#include "server/plan/describe.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>

#include "server/plan/describe_model.h"
#include "server/plan/wire_type.h"
#include "server/spec/hook_point.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/plan/planning.h"

namespace phitap {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

template <typename Message>
void ExpectText(const Message& message, const std::string& text) {
  Message expected;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &expected));
  EXPECT_TRUE(
      google::protobuf::util::MessageDifferencer::Equals(message, expected))
      << message.DebugString();
}

TEST(DescribePlan, TellsTensorsTokensAndCost) {
  const auto plan = Plan(
      "runs { label: 'a' prompt { text: 'bcd' } }"
      "captures { label: 'x' hook_points: 'layers.1.attention_values' "
      "reduction { top_k { k: 2 } } } options { attention: ATTENTION_EAGER }");
  ASSERT_THAT(plan, IsOk());
  ExpectText(DescribePlan(**plan), R"(
    tensors {
      tensor: 0 label: "x" run: "a" part: "values" dtype: DATA_TYPE_BF16
      hook_point: "layers.1.self_attn.attention_values"
      shape: [2, 3, 2] dimension_names: ["num_kv_heads", "seq", "top_k"]
      size_bytes: 24
    }
    tensors {
      tensor: 1 label: "x" run: "a" part: "indices" dtype: DATA_TYPE_I32
      hook_point: "layers.1.self_attn.attention_values"
      shape: [2, 3, 2] dimension_names: ["num_kv_heads", "seq", "top_k"]
      size_bytes: 48
    }
    runs { run: "a" ids: [1, 2, 3] }
    size_bytes: 72
    token_layers: 3
    token_layers_full_depth: 12
    numerics: NUMERICS_CAUSAL
    attention: ATTENTION_EAGER
  )");
}

TEST(WireType, GoesBothWays) {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kI64,
                      DType::kI32, DType::kBool}) {
    EXPECT_EQ(FromWire(WireType(dtype)), dtype);
  }
  EXPECT_EQ(WireType(DType::kBF16), v1::DATA_TYPE_BF16);
  EXPECT_EQ(FromWire(v1::DATA_TYPE_UNSPECIFIED), std::nullopt);
  EXPECT_EQ(FromWire(WireNumerics(Numerics::kTransformers)),
            Numerics::kTransformers);
  EXPECT_EQ(FromWire(WireAttention(Attention::kEager)), Attention::kEager);
}

TEST(DescribeConfig, TellsEveryAttribute) {
  const v1::ModelConfig config = DescribeConfig(Phi3Mini4k(), DType::kF32);
  ExpectText(config, R"(
    architectures: "Phi3ForCausalLM" num_layers: 32 hidden_size: 3072
    num_heads: 32 num_kv_heads: 32 head_dim: 96 qk_head_dim: 96
    vocab_size: 32064 intermediate_size: 8192 max_position_embeddings: 4096
    sliding_window: 2047 hidden_act: "silu" rms_norm_eps: 1e-05
    rope { type: "default" theta: 10000 rotary_dims: 96 attention_factor: 1 }
    stored_dtype: DATA_TYPE_BF16 dtype: DATA_TYPE_F32 bos_token_id: 1
    eos_token_ids: [32000, 32001, 32007] pad_token_id: 32000
  )");
}

TEST(DescribeConfig, TellsLongRopeAndLeavesOutWhatIsNotThere) {
  const v1::ModelConfig config = DescribeConfig(Phi4Mini(), DType::kBF16);
  EXPECT_TRUE(config.tie_word_embeddings());
  EXPECT_FALSE(config.has_pad_token_id());
  EXPECT_EQ(config.rope().type(), "longrope");
  EXPECT_EQ(config.rope().rotary_dims(), 96);
  EXPECT_EQ(config.rope().original_max_position_embeddings(), 4096);
  EXPECT_EQ(config.rope().long_factor_size(), 48);
  EXPECT_EQ(config.rope().long_factor(0), 2.0f);
  EXPECT_DOUBLE_EQ(config.rope().attention_factor(), 1.1902380714238083);
  EXPECT_FALSE(DescribeConfig(TinyGrouped(), DType::kF32).has_bos_token_id());
}

v1::HookPoint Described(Hook hook, const ModelSpec& spec) {
  return DescribeHookPoints(spec, DType::kBF16)[static_cast<size_t>(hook)];
}

TEST(DescribeHookPoints, TellsThemInForwardOrder) {
  const auto points = DescribeHookPoints(Phi4Mini(), DType::kBF16);
  ASSERT_EQ(points.size(), static_cast<size_t>(kHookCount));
  for (int i = 0; i < kHookCount; ++i) {
    EXPECT_EQ(points[i].name(), HookCatalogue()[i].name);
    EXPECT_TRUE(points[i].available());
  }
}

TEST(DescribeHookPoints, TellsNamesShapesAndTypes) {
  const v1::HookPoint keys = Described(Hook::kAttentionKeys, Phi4Mini());
  EXPECT_EQ(keys.full_name(), "layers.{i}.self_attn.attention_keys");
  EXPECT_EQ(keys.module(), "layers.{i}.self_attn");
  EXPECT_THAT(keys.dimension_names(),
              ElementsAre("num_kv_heads", "seq", "head_dim"));
  EXPECT_THAT(keys.dimension_sizes(), ElementsAre("8", "seq", "128"));
  EXPECT_TRUE(keys.writable());
  const v1::HookPoint probs = Described(Hook::kNextTokenProbs, Phi4Mini());
  EXPECT_EQ(probs.module(), "model");
  EXPECT_EQ(probs.dtype(), v1::DATA_TYPE_F32);
  EXPECT_FALSE(probs.writable());
  EXPECT_THAT(Described(Hook::kLayerOutput, Phi4Mini()).aliases(),
              ElementsAre("layers_output[{i}]", "blocks.{i}.hook_resid_post"));
}

TEST(DescribeHookPoints, TellsTheConditionsOfTheCheckpoint) {
  EXPECT_THAT(
      Described(Hook::kAttentionProbabilities, Phi3Mini4k()).condition(),
      HasSubstr("A window of 2047: a query sees itself and the 2046 positions "
                "before it; exactly 0 further back."));
  // Phi-4-mini's window is wider than its longest prompt.
  EXPECT_THAT(Described(Hook::kAttentionProbabilities, Phi4Mini()).condition(),
              ::testing::Not(HasSubstr("window")));
  EXPECT_THAT(Described(Hook::kRotaryCos, Phi4Mini()).condition(),
              HasSubstr("with a position from 4096 on"));
  EXPECT_THAT(Described(Hook::kRotaryCos, Phi3Mini4k()).condition(), IsEmpty());
  EXPECT_THAT(Described(Hook::kAttentionValues, Phi4Mini()).condition(),
              HasSubstr("Key/value head j"));
  EXPECT_THAT(Described(Hook::kAttentionValues, Phi3Mini4k()).condition(),
              IsEmpty());
}

}  // namespace
}  // namespace phitap
