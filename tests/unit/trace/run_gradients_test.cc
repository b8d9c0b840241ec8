// Gradients against differences, and the order in which they come.
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/spec/hook_point.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/trace/engine.h"

namespace phitap {
namespace {

constexpr char kMetric[] =
    "logit_difference { token_id: 5 baseline_token_id: 9 }";

// A request whose run has these edits; the metric's value as `m` and the
// direction of its noise at `point` as `d`.
std::string Request(const std::string& point, const std::string& edits,
                    const std::string& asked) {
  return absl::StrCat(
      "runs { label: 'it' prompt { ", PromptOf(7), " } ", edits,
      " } program { nodes { name: 'm' metric { run: 'it' ", kMetric,
      " } } nodes { name: 'd' noise { like { run: 'it' hook_point: '", point,
      "' } seed: 4 } } } options { attention: ATTENTION_EAGER } ",
      "captures { label: 'm' node: 'm' } captures { label: 'd' node: 'd' } ",
      asked);
}

std::string Nudge(const std::string& point, double scale) {
  return absl::StrCat("interventions { hook_points: '", point,
                      "' add { value { node: 'd' } scale: ", scale, " } }");
}

class GradientAt : public testing::TestWithParam<Hook> {};

TEST_P(GradientAt, IsTheSlopeOfTheMetric) {
  Engine engine({});
  const std::string point =
      FullName({.hook = GetParam(), .layer = HasLayer(GetParam()) ? 0 : -1});
  const std::string edit = R"pb(
    interventions {
      hook_points: 'layers.1.mlp_output'
      scale { value { number: 1.5 } }
    })pb";
  const Traced traced = engine.Run(
      Request(point, edit,
              absl::StrCat("gradients { label: 'g' run: 'it' of { run: 'it' ",
                           kMetric, " } hook_points: '", point, "' }")));
  const at::Tensor gradient = traced.Value("g");
  ASSERT_TRUE(gradient.defined());
  const double slope = (gradient * traced.Value("d")).sum().item<double>();
  constexpr double kStep = 2e-3;
  const auto metric_at = [&](double step) {
    return engine.Run(Request(point, Nudge(point, step) + edit, ""))
        .Value("m")
        .item<double>();
  };
  const double difference = (metric_at(kStep) - metric_at(-kStep)) / 2 / kStep;
  EXPECT_NEAR(slope, difference, 1e-3 * std::abs(difference) + 2e-4);
  EXPECT_NE(slope, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Hooks, GradientAt,
    testing::Values(Hook::kTokenEmbeddings, Hook::kAttentionNormOutput,
                    Hook::kAttentionQueries, Hook::kAttentionKeys,
                    Hook::kAttentionValues, Hook::kAttentionPremix,
                    Hook::kAttentionOutput, Hook::kLayerMid, Hook::kMlpNeurons,
                    Hook::kLayerOutput, Hook::kFinalNormOutput),
    [](const auto& info) { return std::string(EntryOf(info.param).name); });

TEST(Gradients, AreOfThePartThatIsSelected) {
  Engine engine({});
  const auto gradient = [&](const std::string& selection) {
    return engine
        .Run(Request(
            "layers.1.layer_output", "",
            absl::StrCat("gradients { label: 'g' of { run: 'it' ", kMetric,
                         " } hook_points: "
                         "'layers.0.attention_probabilities' "
                         "selection { ",
                         selection, " } }")))
        .Value("g");
  };
  const at::Tensor whole = gradient("");
  EXPECT_TRUE(at::equal(
      gradient("heads { indices: [ 2, 0 ] } queries { indices: -1 } "
               "keys { indices: [ 3, 1 ] }"),
      at::stack({at::stack({whole[2][6][3], whole[2][6][1]}).unsqueeze(0),
                 at::stack({whole[0][6][3], whole[0][6][1]}).unsqueeze(0)})));
  EXPECT_NE(whole.abs().sum().item<float>(), 0);
}

TEST(Gradients, AreZeroWhereTheMetricDoesNotDepend) {
  Engine engine({});
  const Traced traced = engine.Run(
      Request("layers.0.layer_output", "",
              absl::StrCat("gradients { label: 'g' of { run: 'it' ", kMetric,
                           " } hook_points: 'layers.-1.layer_output' }")));
  const at::Tensor gradient = traced.Value("g");
  // Only the last position's logits count.
  EXPECT_EQ(gradient.narrow(0, 0, 6).abs().sum().item<float>(), 0);
  EXPECT_NE(gradient[6].abs().sum().item<float>(), 0);
}

TEST(Gradients, FeedNodesAsAnyValue) {
  // Attribution patching: Σ (clean − corrupt) · ∂m/∂corrupt, in one request.
  Engine engine({});
  const std::string request = absl::StrCat(
      "runs { label: 'clean' prompt { ", PromptOf(7, 1),
      " } } runs { label: 'corrupt' prompt { ", PromptOf(7, 2), R"pb(}
                                                                     }
        program {
          nodes { name: 'm' metric { run: 'corrupt' )pb",
      kMetric, R"pb(}
                    }
          nodes {
            name: 'c'
            read { run: 'clean' hook_point: 'layers.0.layer_output' }
          }
          nodes {
            name: 'h'
            read { run: 'corrupt' hook_point: 'layers.0.layer_output' }
          }
          nodes {
            name: 'g'
            gradient {
              of: 'm'
              with_respect_to {
                run: 'corrupt'
                hook_point: 'layers.0.layer_output'
              }
            }
          }
          nodes {
            name: 'delta'
            inputs: [ 'c', 'h' ]
            function: FUNCTION_SUBTRACT
          }
          nodes {
            name: 'effect'
            inputs: [ 'delta', 'g' ]
            dot {}
          }
        }
        captures { label: 'effect' node: 'effect' }
        captures { label: 'g' node: 'g' }
        captures { label: 'h' hook_points: 'layers.0.layer_output' })pb");
  const Traced traced = engine.Run(request);
  const at::Tensor delta =
      traced.Value("h", "clean") - traced.Value("h", "corrupt");
  EXPECT_TRUE(at::allclose(traced.Value("effect"),
                           (delta * traced.Value("g")).sum(-1, true), 1e-5,
                           1e-7));
  EXPECT_NE(traced.Value("effect").abs().sum().item<float>(), 0);
}

}  // namespace
}  // namespace phitap
