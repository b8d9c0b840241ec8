#include "server/checkpoint/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "tests/support/checkpoint_files.h"
#include "tests/support/status_matchers.h"

namespace phitap {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::IsEmpty;

// What ReadConfig makes of a folder with these two files.
absl::StatusOr<CheckpointConfig> Read(
    const json& config, std::optional<json> generation = std::nullopt) {
  TempFolder folder;
  folder.Write("config.json", config.dump());
  if (generation) folder.Write("generation_config.json", generation->dump());
  return ReadConfig(folder.path());
}

TEST(ReadConfig, TakesTransformersDefaultsForMissingKeys) {
  const auto config = Read({{"model_type", "phi3"}});
  ASSERT_THAT(config, IsOk());
  const ModelSpec& spec = config->spec;
  EXPECT_EQ(spec.architecture, "Phi3ForCausalLM");
  EXPECT_EQ(spec.num_layers, 32);
  EXPECT_EQ(spec.hidden_size, 3072);
  EXPECT_EQ(spec.num_heads, 32);
  EXPECT_EQ(spec.num_kv_heads, 32);
  EXPECT_EQ(spec.head_dim, 96);
  EXPECT_EQ(spec.rotary_dims, 96);
  EXPECT_EQ(spec.intermediate_size, 8192);
  EXPECT_EQ(spec.vocab_size, 32064);
  EXPECT_EQ(spec.max_positions, 4096);
  EXPECT_EQ(spec.sliding_window, std::nullopt);
  EXPECT_EQ(spec.rms_norm_eps, 1e-5);
  EXPECT_EQ(spec.hidden_act, "silu");
  EXPECT_EQ(spec.rope_theta, 10000.0);
  EXPECT_FALSE(spec.longrope.has_value());
  EXPECT_FALSE(spec.tied_head);
  EXPECT_EQ(spec.bos_id, 1);
  EXPECT_EQ(spec.pad_id, 32000);
  EXPECT_THAT(spec.eos_ids, ElementsAre(32000));
  EXPECT_EQ(config->dtype, std::nullopt);
  EXPECT_THAT(config->warnings, IsEmpty());
}

TEST(ReadConfig, ReadsEverySizeThatIsStated) {
  const auto config = Read({{"model_type", "phi3"},
                            {"num_hidden_layers", 5},
                            {"hidden_size", 48},
                            {"num_attention_heads", 6},
                            {"num_key_value_heads", 3},
                            {"intermediate_size", 80},
                            {"vocab_size", 100},
                            {"max_position_embeddings", 256},
                            {"sliding_window", 7},
                            {"rms_norm_eps", 1e-6},
                            {"rope_theta", 250000},
                            {"tie_word_embeddings", true}});
  ASSERT_THAT(config, IsOk());
  const ModelSpec& spec = config->spec;
  EXPECT_EQ(spec.num_layers, 5);
  EXPECT_EQ(spec.hidden_size, 48);
  EXPECT_EQ(spec.num_heads, 6);
  EXPECT_EQ(spec.num_kv_heads, 3);
  EXPECT_EQ(spec.head_dim, 8);
  EXPECT_EQ(spec.intermediate_size, 80);
  EXPECT_EQ(spec.vocab_size, 100);
  EXPECT_EQ(spec.max_positions, 256);
  EXPECT_EQ(spec.sliding_window, 7);
  EXPECT_EQ(spec.rms_norm_eps, 1e-6);
  EXPECT_EQ(spec.rope_theta, 250000.0);
  EXPECT_TRUE(spec.tied_head);
}

TEST(ReadConfig, TakesNullForNone) {
  const auto config = Read({{"model_type", "phi3"},
                            {"num_key_value_heads", nullptr},
                            {"head_dim", nullptr},
                            {"sliding_window", nullptr},
                            {"rope_scaling", nullptr},
                            {"rope_parameters", nullptr},
                            {"architectures", nullptr},
                            {"quantization_config", nullptr},
                            {"torch_dtype", nullptr},
                            {"bos_token_id", nullptr},
                            {"pad_token_id", nullptr},
                            {"eos_token_id", nullptr}});
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->spec.num_kv_heads, 32);
  EXPECT_EQ(config->spec.head_dim, 96);
  EXPECT_EQ(config->spec.sliding_window, std::nullopt);
  EXPECT_EQ(config->spec.bos_id, std::nullopt);
  EXPECT_EQ(config->spec.pad_id, std::nullopt);
  EXPECT_THAT(config->spec.eos_ids, IsEmpty());
}

TEST(ReadConfig, LetsAnExplicitHeadDimStand) {
  const auto config = Read({{"model_type", "phi3"},
                            {"hidden_size", 100},
                            {"num_attention_heads", 3},
                            {"head_dim", 24}});
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->spec.head_dim, 24);
  EXPECT_EQ(config->spec.rotary_dims, 24);
}

TEST(ReadConfig, IgnoresTheBiasFlagsThatTransformersIgnores) {
  EXPECT_THAT(Read({{"model_type", "phi3"},
                    {"attention_bias", true},
                    {"mlp_bias", true},
                    {"lm_head_bias", true},
                    {"full_attn_mod", 2},
                    {"interpolate_factor", 3}}),
              IsOk());
}

TEST(ReadConfig, ReadsTheElementTypeInBothSpellings) {
  for (const char* key : {"dtype", "torch_dtype"}) {
    for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
      const auto config =
          Read({{"model_type", "phi3"}, {key, std::string(Name(dtype))}});
      ASSERT_THAT(config, IsOk());
      EXPECT_EQ(config->dtype, dtype) << key;
      EXPECT_EQ(config->spec.dtype, dtype) << key;
    }
  }
}

TEST(ReadConfig, TakesTheEndsOfGenerationFromTheGenerationConfig) {
  const json base = {{"model_type", "phi3"}, {"eos_token_id", 5}};
  const auto ends = [&](const json& generation) {
    const auto config = Read(base, generation);
    EXPECT_THAT(config, IsOk());
    return config.ok() ? config->spec.eos_ids : std::vector<int64_t>();
  };
  EXPECT_THAT(ends({{"eos_token_id", {32000, 32001, 32007}}}),
              ElementsAre(32000, 32001, 32007));
  EXPECT_THAT(ends({{"eos_token_id", 9}}), ElementsAre(9));
  EXPECT_THAT(ends({{"eos_token_id", nullptr}}), ElementsAre(5));
  EXPECT_THAT(ends(json::object()), ElementsAre(5));
}

TEST(ReadConfig, TakesAListOfEndsFromTheConfig) {
  const auto config =
      Read({{"model_type", "phi3"}, {"eos_token_id", {200020, 199999}}});
  ASSERT_THAT(config, IsOk());
  EXPECT_THAT(config->spec.eos_ids, ElementsAre(200020, 199999));
}

}  // namespace
}  // namespace phitap
