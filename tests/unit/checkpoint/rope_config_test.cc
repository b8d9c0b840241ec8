#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "server/checkpoint/config.h"
#include "tests/support/checkpoint_files.h"
#include "tests/support/status_matchers.h"

namespace phitap {
namespace {

using absl::StatusCode;
using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

absl::StatusOr<CheckpointConfig> Read(const json& config) {
  TempFolder folder;
  folder.Write("config.json", config.dump());
  return ReadConfig(folder.path());
}

// 4 heads of 4 dimensions; 512 positions, 16 of them the original ones.
json Config(json rope_scaling) {
  return {{"model_type", "phi3"},
          {"hidden_size", 16},
          {"num_attention_heads", 4},
          {"max_position_embeddings", 512},
          {"original_max_position_embeddings", 16},
          {"rope_scaling", std::move(rope_scaling)}};
}

json Scaling(json more = json::object()) {
  json scaling = {{"type", "longrope"},
                  {"short_factor", {1, 1.5}},
                  {"long_factor", {2.0, 64.75}}};
  scaling.update(more);
  return scaling;
}

TEST(ReadRope, ReadsLongRopeUnderAllItsNames) {
  for (const char* type : {"longrope", "su", "yarn"}) {
    const auto config = Read(Config(Scaling({{"type", type}})));
    ASSERT_THAT(config, IsOk()) << type;
    ASSERT_TRUE(config->spec.longrope.has_value()) << type;
    const LongRope& longrope = *config->spec.longrope;
    EXPECT_THAT(longrope.short_factor, ElementsAre(1.0f, 1.5f));
    EXPECT_THAT(longrope.long_factor, ElementsAre(2.0f, 64.75f));
    EXPECT_EQ(longrope.original_max_positions, 16);
    // sqrt(1 + ln 32 / ln 16)
    EXPECT_EQ(longrope.attention_factor, 1.5);
    EXPECT_THAT(config->warnings, IsEmpty());
  }
}

TEST(ReadRope, ReadsTheSpellingOfTransformers5) {
  json config = Config(nullptr);
  config["rope_parameters"] =
      Scaling({{"type", "longrope"},
               {"rope_type", "longrope"},
               {"rope_theta", 500000.0},
               {"partial_rotary_factor", 1.0},
               {"original_max_position_embeddings", 16}});
  const auto read = Read(config);
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(read->spec.rope_theta, 500000.0);
  ASSERT_TRUE(read->spec.longrope.has_value());
  EXPECT_THAT(read->spec.longrope->short_factor, ElementsAre(1.0f, 1.5f));
  EXPECT_EQ(read->spec.longrope->attention_factor, 1.5);
  EXPECT_THAT(read->warnings, IsEmpty());
}

TEST(ReadRope, PrefersTheParametersOwnThetaAndPartialFactor) {
  json config = Config(nullptr);
  config["rope_theta"] = 7.0;
  config["partial_rotary_factor"] = 1.0;
  config["rope_parameters"] = {{"rope_type", "default"},
                               {"rope_theta", 5.0},
                               {"partial_rotary_factor", 0.5}};
  const auto read = Read(config);
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(read->spec.rope_theta, 5.0);
  EXPECT_EQ(read->spec.rotary_dims, 2);
  EXPECT_FALSE(read->spec.longrope.has_value());
}

TEST(ReadRope, TakesScalingBeforeParametersAsTransformersDoes) {
  json config = Config(Scaling());
  config["rope_parameters"] = {{"rope_type", "default"}};
  EXPECT_TRUE(Read(config)->spec.longrope.has_value());
  config["rope_scaling"] = json::object();
  EXPECT_FALSE(Read(config)->spec.longrope.has_value());
}

TEST(ReadRope, LetsTheTopLevelDecideTheOriginalLength) {
  const json nested = Scaling({{"original_max_position_embeddings", 64}});
  const auto both = Read(Config(nested));
  ASSERT_THAT(both, IsOk());
  EXPECT_EQ(both->spec.longrope->original_max_positions, 16);
  EXPECT_THAT(
      both->warnings,
      ElementsAre(
          AllOf(HasSubstr("rope_scaling.original_max_position_embeddings: 64"),
                HasSubstr("is 16"))));

  json config = Config(nested);
  config.erase("original_max_position_embeddings");
  const auto nested_only = Read(config);
  ASSERT_THAT(nested_only, IsOk());
  EXPECT_EQ(nested_only->spec.longrope->original_max_positions, 4096);
  EXPECT_THAT(nested_only->warnings,
              ElementsAre(HasSubstr("is 4096 by default")));
}

TEST(ReadRope, ComputesTheAttentionFactorOfTheRealCheckpoints) {
  json config = Config(Scaling());
  config["max_position_embeddings"] = 131072;
  config["original_max_position_embeddings"] = 4096;
  EXPECT_EQ(Read(config)->spec.longrope->attention_factor, 1.1902380714238083);
}

TEST(ReadRope, TakesTheAttentionFactorFromTheConfigFirst) {
  const auto attention_factor = [](const json& more) {
    const auto config = Read(Config(Scaling(more)));
    EXPECT_THAT(config, IsOk());
    return config.ok() ? config->spec.longrope->attention_factor : 0.0;
  };
  EXPECT_EQ(attention_factor({{"attention_factor", 1.25}}), 1.25);
  EXPECT_EQ(attention_factor({{"attention_factor", 1.25}, {"factor", 4.0}}),
            1.25);
  EXPECT_EQ(attention_factor({{"factor", 16}}), std::sqrt(2.0));
  EXPECT_EQ(attention_factor({{"factor", 1.0}}), 1.0);
  EXPECT_EQ(attention_factor({{"factor", 0.5}}), 1.0);
  EXPECT_EQ(attention_factor({{"factor", nullptr}}), 1.5);
}

TEST(ReadRope, WarnsOfScalesThatTransformersNeverReads) {
  const auto config =
      Read(Config(Scaling({{"short_mscale", 1.1}, {"long_mscale", 1.2}})));
  ASSERT_THAT(config, IsOk());
  EXPECT_EQ(config->spec.longrope->attention_factor, 1.5);
  EXPECT_THAT(config->warnings,
              ElementsAre(HasSubstr("rope_scaling.short_mscale"),
                          HasSubstr("rope_scaling.long_mscale")));
}

TEST(ReadRope, RotatesTheWholePartOfAPartialHead) {
  json config = Config(nullptr);
  config["hidden_size"] = 3072;
  config["num_attention_heads"] = 24;
  config["partial_rotary_factor"] = 0.75;
  EXPECT_EQ(Read(config)->spec.rotary_dims, 96);
  config["partial_rotary_factor"] = 0.77;  // int(98.56)
  EXPECT_EQ(Read(config)->spec.rotary_dims, 98);
}

struct BadRope {
  json config;
  std::string message;
};

void PrintTo(const BadRope& rope, std::ostream* out) { *out << rope.message; }

json With(const char* key, json value) {
  json config = Config(Scaling());
  config[key] = std::move(value);
  return config;
}

class ReadRopeRefuses : public testing::TestWithParam<BadRope> {};

TEST_P(ReadRopeRefuses, NamesTheFieldAndTheValue) {
  EXPECT_THAT(Read(GetParam().config),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(StartsWith("config.json: " + GetParam().message),
                             HasSubstr("; valid: "))));
}

INSTANTIATE_TEST_SUITE_P(
    Configs, ReadRopeRefuses,
    testing::Values(
        BadRope{Config(Scaling({{"type", "linear"}})),
                "rope_scaling.type: \"linear\""},
        BadRope{Config({{"rope_type", "none"}}),
                "rope_scaling.rope_type: \"none\""},
        BadRope{Config({{"rope_type", nullptr}, {"factor", 2}}),
                "rope_scaling.rope_type: null"},
        BadRope{Config({{"type", 3}}), "rope_scaling.type: 3"},
        BadRope{Config({{"long_factor", {1, 1}}, {"short_factor", {1, 1}}}),
                "rope_scaling.type: is missing"},
        BadRope{Config("longrope"), "rope_scaling: \"longrope\""},
        BadRope{Config({{"full_attention", {{"rope_type", "default"}}}}),
                "rope_scaling: has parameters of its own for "
                "\"full_attention\""},
        BadRope{Config({{"type", "longrope"}, {"long_factor", {1, 1}}}),
                "rope_scaling.short_factor: is missing"},
        BadRope{Config(Scaling({{"long_factor", {1, 1, 1}}})),
                "rope_scaling.long_factor: has 3 factors; valid: 2"},
        BadRope{Config(Scaling({{"long_factor", json::array()}})),
                "rope_scaling.long_factor: has 0 factors"},
        BadRope{Config(Scaling({{"long_factor", "x"}})),
                "rope_scaling.long_factor: \"x\""},
        BadRope{Config(Scaling({{"short_factor", {1, "x"}}})),
                "rope_scaling.short_factor[1]: \"x\""},
        BadRope{Config(Scaling({{"short_factor", {0, 1}}})),
                "rope_scaling.short_factor[0]: 0"},
        BadRope{Config(Scaling({{"short_factor", {1, -1.5}}})),
                "rope_scaling.short_factor[1]: -1.5"},
        BadRope{Config(Scaling({{"short_factor", {1, 1e39}}})),
                "rope_scaling.short_factor[1]: 1e+39"},
        BadRope{Config(Scaling({{"short_factor", {1, 1e-60}}})),
                "rope_scaling.short_factor[1]: 1e-60"},
        BadRope{Config(Scaling({{"factor", -1}})), "rope_scaling.factor: -1"},
        BadRope{Config(Scaling({{"attention_factor", 0}})),
                "rope_scaling.attention_factor: 0"},
        BadRope{With("original_max_position_embeddings", 1),
                "original_max_position_embeddings: 1"},
        BadRope{With("original_max_position_embeddings", nullptr),
                "original_max_position_embeddings: null"},
        BadRope{With("rope_theta", 0), "rope_theta: 0"},
        BadRope{With("rope_theta", "1e4"), "rope_theta: \"1e4\""},
        BadRope{Config(Scaling({{"rope_theta", nullptr}})),
                "rope_scaling.rope_theta: null"},
        BadRope{With("partial_rotary_factor", 0), "partial_rotary_factor: 0"},
        BadRope{With("partial_rotary_factor", 1.5),
                "partial_rotary_factor: 1.5"},
        BadRope{With("partial_rotary_factor", 0.75),
                "partial_rotary_factor: leaves 3 of 4"},
        BadRope{With("partial_rotary_factor", 0.1),
                "partial_rotary_factor: leaves 0 of 4"},
        BadRope{Config(Scaling({{"partial_rotary_factor", 0.75}})),
                "rope_scaling.partial_rotary_factor: leaves 3 of 4"}));

}  // namespace
}  // namespace phitap
