// Runs that generate.
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/trace/engine.h"

namespace phitap {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kCaptures[] = R"pb(
  captures { label: 'out' hook_points: 'layers.1.layer_output' }
  captures { label: 'keys' hook_points: 'layers.0.attention_keys' }
  captures { label: 'pattern' hook_points: 'layers.1.attention_probabilities' }
  captures { label: 'logits' hook_points: 'logits' }
)pb";

std::string Generating(const std::string& label, const std::string& prompt,
                       const std::string& generation,
                       const std::string& interventions = "") {
  return absl::StrCat("runs { label: '", label, "' prompt { ", prompt, " } ",
                      interventions, " generation { ", generation,
                      " ignore_stop_ids: true } } ");
}

// The tokens that the step's pass has seen, as a prompt.
std::string PromptUpTo(const Traced& traced, int run, int step) {
  std::vector<int32_t> ids = traced.plan->runs[run].ids;
  const std::vector<int32_t> generated = traced.TokensOf(run);
  ids.insert(ids.end(), generated.begin(), generated.begin() + step);
  return absl::StrCat("tokens { ids: [ ", absl::StrJoin(ids, ", "), " ] }");
}

// Every value of a step is that of one run over all of its tokens.
void ExpectStepsOfOneForward(Engine& engine, const Traced& traced, int steps,
                             const std::string& interventions = "") {
  for (int step = 1; step < steps; ++step) {
    const Traced whole =
        engine.Run(absl::StrCat("runs { prompt { ", PromptUpTo(traced, 0, step),
                                " } ", interventions, " } ", kCaptures));
    for (const std::string label : {"out", "logits"}) {
      const at::Tensor value = traced.Value(label, "", step);
      ASSERT_TRUE(value.defined()) << label << " at step " << step;
      EXPECT_TRUE(at::equal(value[0], whole.Value(label)[-1]))
          << label << " at step " << step;
    }
    for (const std::string label : {"keys", "pattern"}) {
      const at::Tensor last = whole.Value(label).select(1, -1);
      EXPECT_TRUE(at::equal(traced.Value(label, "", step).select(1, 0), last))
          << label << " at step " << step;
    }
  }
}

class GenerationOf : public testing::TestWithParam<TinyKind> {};

TEST_P(GenerationOf, HasAtEveryStepTheBitsOfOneForward) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    Engine engine({.kind = GetParam(), .dtype = dtype});
    // Over the window of 8, and over the longrope boundary at 16 positions.
    const Traced traced =
        engine.Run(Generating("it", PromptOf(11), "max_tokens: 9") + kCaptures);
    ASSERT_EQ(traced.TokensOf(0).size(), 9u);
    EXPECT_EQ(traced.outcomes.at(0).finish_reason, FinishReason::kLength);
    ExpectStepsOfOneForward(engine, traced, 9);
  }
}

TEST_P(GenerationOf, AppliesEditsAtEveryStepAndAgainInARecompute) {
  Engine engine({.kind = GetParam()});
  const std::string edit = R"pb(
    interventions {
      hook_points: 'layers.0.layer_output'
      add { value { number: 0.25 } }
    })pb";
  const Traced traced = engine.Run(
      Generating("it", PromptOf(11), "max_tokens: 8", edit) + kCaptures);
  ExpectStepsOfOneForward(engine, traced, 8, edit);
}

INSTANTIATE_TEST_SUITE_P(Kinds, GenerationOf,
                         testing::Values(TinyKind::kWindow, TinyKind::kLongRope,
                                         TinyKind::kGroupedQueries,
                                         TinyKind::kPartialTied),
                         [](const auto& info) { return Name(info.param); });

TEST(Generation, KeepsCachedKeysPastTheLongropeBoundaryIfAsked) {
  Engine engine({.kind = TinyKind::kLongRope});
  const std::string request =
      Generating("it", PromptOf(14), "max_tokens: 6") + kCaptures;
  const Traced kept =
      engine.Run(request + " options { longrope_cache: LONGROPE_CACHE_KEEP }");
  const Traced again = engine.Run(request);
  ASSERT_EQ(engine.spec().longrope->original_max_positions, 16);
  // Tokens 1 and 2 stand at positions 14 and 15, token 3 crosses.
  for (const int step : {1, 2}) {
    EXPECT_TRUE(at::equal(kept.Value("logits", "", step),
                          again.Value("logits", "", step)));
  }
  EXPECT_FALSE(
      at::equal(kept.Value("logits", "", 3), again.Value("logits", "", 3)));
  EXPECT_TRUE(at::equal(kept.Value("keys", "", 3).narrow(1, 0, 1),
                        again.Value("keys", "", 3).narrow(1, 0, 1)));
}

TEST(Generation, IsTheSameInAnyCompany) {
  Engine engine({.dtype = DType::kBF16});
  const std::string sampled = Generating(
      "it", PromptOf(9), "max_tokens: 12 temperature: 0.8 top_k: 20 seed: 3");
  const Traced alone = engine.Run(sampled + kCaptures);
  const Traced among = engine.Run(
      Generating("a", PromptOf(40, 2), "max_tokens: 3") + sampled +
      Generating("b", PromptOf(5, 4), "max_tokens: 20 temperature: 2 seed: 3") +
      "runs { label: 'c' prompt { " + PromptOf(33, 3) + " } } " + kCaptures);
  EXPECT_EQ(alone.TokensOf(0), among.TokensOf(1));
  std::vector<int32_t> other = among.TokensOf(2);
  other.resize(12);
  EXPECT_NE(among.TokensOf(1), other);
  for (int step = 0; step < 12; ++step) {
    EXPECT_TRUE(at::equal(alone.Value("logits", "it", step),
                          among.Value("logits", "it", step)))
        << step;
  }
}

TEST(Generation, EndsWithAStopId) {
  Engine engine({});
  const std::vector<int32_t> tokens =
      engine
          .Run(Generating("it", PromptOf(9),
                          "max_tokens: 12 temperature: 3 seed: 1"))
          .TokensOf(0);
  const Traced traced = engine.Run(absl::StrCat(
      "runs { prompt { ", PromptOf(9), " } generation { max_tokens: 12 ",
      "temperature: 3 seed: 1 stop_ids: ", tokens[3], " } }"));
  const std::vector<int32_t> stopped = traced.TokensOf(0);
  ASSERT_LE(stopped.size(), 4u);
  EXPECT_EQ(stopped.back(), tokens[3]);
  EXPECT_EQ(traced.outcomes.at(0).finish_reason, FinishReason::kStop);
}

TEST(Generation, GoesOnWithForcedTokens) {
  Engine engine({});
  const Traced traced = engine.Run(
      Generating("it", PromptOf(9), "max_tokens: 5 forced_ids: [ 4, 90, 4 ]"));
  const std::vector<int32_t> tokens = traced.TokensOf(0);
  ASSERT_EQ(tokens.size(), 5u);
  EXPECT_THAT(std::vector<int32_t>(tokens.begin(), tokens.begin() + 3),
              ElementsAre(4, 90, 4));
  const Traced whole = engine.Run(
      absl::StrCat("runs { prompt { ", PromptUpTo(traced, 0, 3),
                   " } generation { max_tokens: 1 ignore_stop_ids: true } }"));
  EXPECT_EQ(whole.TokensOf(0).front(), tokens[3]);
}

TEST(Generation, FailsWhereTheLogitsAreNoNumbers) {
  Engine engine({});
  const auto plan =
      engine.Plan(Generating("it", PromptOf(5), "max_tokens: 3", R"pb(
        interventions {
          hook_points: 'layers.0.layer_output'
          scale { value { number: 1e38 } }
        }
        interventions {
          hook_points: 'layers.0.layer_output'
          scale { value { number: 1e38 } }
        })pb"));
  ASSERT_THAT(plan, IsOk());
  const Traced traced = engine.Run(*plan);
  EXPECT_THAT(traced.outcomes.at(0).status,
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("no token can be chosen at step 1")));
  EXPECT_FALSE(traced.tokens.contains(0));
}

TEST(Generation, RemembersInALatchWhatHeldAtAnEarlierStep) {
  Engine engine({});
  // Token 3 is another one than 1, 2, 4 and the prompt's last.
  const auto request = [](const std::string& less, const std::string& edit) {
    return absl::StrCat(
        Generating("it", "tokens { ids: [ 1, 2, 4 ] }",
                   "max_tokens: 7 forced_ids: [ 4, 4, 90, 4, 4, 4, 4 ]", edit),
        R"pb(
          program { nodes {
            name: 'x'
            read {
              run: 'it'
              hook_point: 'token_embeddings'
              selection {
                positions { indices: -1 }
                features { indices: 0 }
              }
            }
          }
                    nodes { name: 'differs' function: FUNCTION_LESS)pb",
        less, R"pb(}
                   nodes {
              name: 'ever'
              inputs: 'differs'
              latch {}
            }
          }
          captures { label: 'embeddings' hook_points: 'token_embeddings' }
          captures {
            label: 'before'
            hook_points: 'layers.0.mlp_output'
            read_time: READ_TIME_BEFORE
          }
          captures { label: 'after' hook_points: 'layers.0.mlp_output' })pb");
  };
  const Traced plain = engine.Run(
      request(" inputs: [ 'x', 'c' ] } nodes { name: 'c' number: 0", ""));
  const double usual = plain.Value("embeddings", "", 1)[0][0].item<double>();
  const double other = plain.Value("embeddings", "", 3)[0][0].item<double>();
  ASSERT_NE(usual, other);
  const Traced traced = engine.Run(request(
      absl::StrCat(" inputs: [ ", other < usual ? "'x', 'c'" : "'c', 'x'",
                   " ] } nodes { name: 'c' number: ", (usual + other) / 2),
      R"pb(
        interventions {
          hook_points: 'layers.0.mlp_output'
          when: 'ever'
          add { value { number: 1 } }
        })pb"));
  for (int step = 0; step < 7; ++step) {
    const at::Tensor before = traced.Value("before", "", step);
    EXPECT_TRUE(at::equal(traced.Value("after", "", step),
                          step < 3 ? before : before + 1))
        << step;
  }
}

TEST(Generation, RunsThroughTransformersCallsAsWell) {
  Engine engine({});
  const std::string options = " options { numerics: NUMERICS_TRANSFORMERS }";
  const std::string two = Generating("a", PromptOf(12), "max_tokens: 6") +
                          Generating("b", PromptOf(7, 2), "max_tokens: 4");
  const Traced causal = engine.Run(two);
  const Traced library = engine.Run(two + options);
  EXPECT_EQ(causal.TokensOf(0), library.TokensOf(0));
  EXPECT_EQ(causal.TokensOf(1), library.TokensOf(1));
}

}  // namespace
}  // namespace phitap
