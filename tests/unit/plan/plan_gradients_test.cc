#include "server/plan/program/plan_gradients.h"

#include <gmock/gmock.h>

#include <variant>

#include "tests/support/status_matchers.h"
#include "tests/unit/plan/programming.h"

namespace phitap {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Gradient(const std::string& rest) {
  return absl::StrCat(kTwoRuns, "gradients { ", rest, " }");
}

constexpr char kLogit[] = "of { run: 'a' logit { token_id: 3 } }";

TEST(PlanGradients, MakeATensorForEveryHookPointInOnePass) {
  const auto plan = Plan(Gradient(absl::StrCat(
      kLogit,
      " hook_points: 'layers.{0,2}.mlp_output' dtype: DATA_TYPE_BF16 "
      "selection { positions { indices: [-1, 0] } }")));
  ASSERT_THAT(plan, IsOk());
  ASSERT_EQ((*plan)->gradient_passes.size(), 1);
  EXPECT_EQ((*plan)->gradient_passes[0].run, 0);
  ASSERT_EQ((*plan)->tensors.size(), 2);
  const PlannedTensor& tensor = (*plan)->tensors[1];
  EXPECT_EQ(tensor.label, "gradient0");
  EXPECT_EQ(tensor.run, -1);
  EXPECT_EQ(tensor.point, (HookPoint{Hook::kMlpOutput, 2}));
  EXPECT_EQ(tensor.dtype, DType::kBF16);
  EXPECT_THAT(tensor.shape, ElementsAre(2, 24));
  EXPECT_THAT(tensor.dimension_names, ElementsAre("seq", "hidden_size"));
  EXPECT_EQ(tensor.size_bytes, 96);
  EXPECT_EQ((*plan)->size_bytes, 192);
  ASSERT_EQ((*plan)->outputs.size(), 2);
  EXPECT_EQ((*plan)->gradient_passes[0].gradients,
            (std::vector{(*plan)->outputs[0].node, (*plan)->outputs[1].node}));
  EXPECT_GT((*plan)->working_bytes, 0);
}

TEST(PlanGradients, ShareAPassWhereMetricAndRunAreEqual) {
  const auto passes = [](const std::string& second) {
    const auto plan = Plan(absl::StrCat(
        Gradient(absl::StrCat(kLogit, " hook_points: 'layers.0.layer_output'")),
        "gradients { ", second, " hook_points: 'layers.1.layer_output' }"));
    EXPECT_THAT(plan, IsOk());
    return (*plan)->gradient_passes.size();
  };
  EXPECT_EQ(passes(kLogit), 1);
  EXPECT_EQ(passes("of { run: 'a' logit { token_id: 4 } }"), 2);
  EXPECT_EQ(passes("of { run: 'b' logit { token_id: 3 } }"), 2);
}

TEST(PlanGradients, NeedEagerAttentionForPatterns) {
  const std::string request = Gradient(
      absl::StrCat(kLogit, " hook_points: 'layers.1.attention_scores'"));
  const auto plan = Plan(request);
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ((*plan)->attention, Attention::kEager);
  EXPECT_THAT(Plan(request + "options { attention: ATTENTION_SDPA }"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("options.attention: ATTENTION_SDPA, but "
                                 "gradients[0]")));
}

TEST(PlanGradients, RefuseWhatHasNoGradient) {
  const Refusal kRefusals[] = {
      {"of { logit { token_id: 3 } } hook_points: 'layers.0.mlp_up'",
       "gradients[0].run: neither it nor of.run names a run"},
      {"of { run: 'c' logit { token_id: 3 } } hook_points: 'layers.0.mlp_up'",
       "gradients[0].of.run: no run is labelled \"c\""},
      {absl::StrCat(kLogit, " run: 'b' hook_points: 'layers.0.mlp_up'"),
       "gradients[0]: the metric does not depend on run \"b\""},
      {absl::StrCat(kLogit, " hook_points: 'next_token_probs'"),
       "gradients[0]: all that the metric reads of run \"a\" comes before "
       "next_token_probs"},
      {absl::StrCat(kLogit, " hook_points: 'rotary_cos'"),
       "gradients[0]: no gradient reaches rotary_cos"},
      {absl::StrCat(kLogit, " hook_points: 'input_ids'"),
       "gradients[0]: input_ids holds integers"},
      {absl::StrCat(kLogit, " hook_points: ''"), "gradients[0].hook_points"},
      {absl::StrCat(kLogit, " hook_points: 'logits' dtype: DATA_TYPE_I32"),
       "gradients[0].dtype: DATA_TYPE_I32"},
      {absl::StrCat(kLogit,
                    " hook_points: 'logits' selection { positions { "
                    "indices: 5 } }"),
       "gradients[0].selection.positions.indices[0]"},
      {absl::StrCat(kLogit,
                    " hook_points: 'logits' selection { steps { "
                    "indices: 1 } }"),
       "gradients[0].selection.steps"},
      {"of { run: 'a' } hook_points: 'logits'",
       "gradients[0].of: says no kind of metric"},
      {"of { run: 'a' logit {} } hook_points: 'logits'",
       "gradients[0].of.logit.token_id: is not set; valid: 0 to 49"},
      {"of { run: 'a' logit { token_id: 50 } } hook_points: 'logits'",
       "gradients[0].of.logit.token_id: 50 is not in the vocabulary"},
      {"of { run: 'a' position: 5 logit { token_id: 1 } } hook_points: "
       "'logits'",
       "gradients[0].of.position: 5 is outside the 5 tokens of run \"a\""},
      {"of { run: 'a' kl { from_run: 'x' } } hook_points: 'logits'",
       "gradients[0].of.kl.from_run: no run is labelled \"x\""},
      {"of { run: 'a' node: 'n' } hook_points: 'logits'",
       "gradients[0].of.node: no node is named \"n\""},
      {"of { run: 'a' logit_difference { token_id: 1 } } hook_points: 'logits'",
       "gradients[0].of.logit_difference.baseline_token_id: is not set"},
  };
  for (const Refusal& refusal : kRefusals) {
    EXPECT_THAT(Plan(Gradient(refusal.request)),
                StatusIs(refusal.code, HasSubstr(refusal.message)))
        << refusal.request;
  }
}

constexpr char kSweep[] =
    "sweeps { run: 'b' interventions { hook_points: 'layers.*.layer_output' "
    "scale { value { number: 2 } } } axes { layers {} } axes { positions {} } ";

TEST(PlanSweepMetrics, PutEveryCellIntoOneTensorAMetric) {
  const auto plan = Plan(absl::StrCat(
      kTwoRuns, kSweep,
      "metrics { label: 'p' probability { token_id: 3 log: true } } metrics { "
      "label: 'kl' position: 0 kl { from_run: 'a' } } }"));
  ASSERT_THAT(plan, IsOk());
  ASSERT_EQ((*plan)->tensors.size(), 2);
  const PlannedTensor& kl = (*plan)->tensors[1];
  EXPECT_EQ(kl.part, "kl");
  EXPECT_EQ(kl.run, -1);
  EXPECT_FALSE(kl.has_point);
  EXPECT_THAT(kl.shape, ElementsAre(4, 3));
  EXPECT_THAT(kl.dimension_names, ElementsAre("layer", "position"));
  ASSERT_EQ((*plan)->outputs.size(), 24);
  for (int i = 0; i < 24; ++i) {
    const PlannedOutput& output = (*plan)->outputs[i];
    EXPECT_EQ(output.tensor, i / 12);
    EXPECT_EQ(output.offset, i % 12);
    EXPECT_TRUE((*plan)->nodes[output.node].shape.empty());
  }
}

TEST(PlanSweepMetrics, RefuseAMetricThatNoCellHas) {
  const Refusal kRefusals[] = {
      {"metrics { label: 'm' }",
       "sweeps[0].metrics[0]: says no kind of metric"},
      {"metrics { position: 3 logit { token_id: 1 } }",
       "sweeps[0].metrics[0].position: 3 is outside the 3 tokens"},
      {absl::StrCat("metrics { label: '", std::string(257, 'm'),
                    "' logit { token_id: 1 } }"),
       "sweeps[0].metrics[0].label"},
  };
  for (const Refusal& refusal : kRefusals) {
    EXPECT_THAT(Plan(absl::StrCat(kTwoRuns, kSweep, refusal.request, " }")),
                StatusIs(refusal.code, HasSubstr(refusal.message)))
        << refusal.request;
  }
}

TEST(AddMetric, TakesTheDivergencesPositionInEachRunsOwnLength) {
  PlannedRuns runs(kTwoRuns);
  v1::Metric metric;
  metric.mutable_kl()->set_from_run("a");
  ASSERT_THAT(AddMetric(runs.parts, {}, metric, /*run=*/1, "here"), IsOk());
  std::vector<std::pair<int, int64_t>> read;
  for (const ProgramNode& node : runs.plan.nodes) {
    const auto* logits = std::get_if<RunRead>(&node.operation);
    if (logits == nullptr) continue;
    read.push_back({logits->run, logits->selection.positions->front()});
  }
  EXPECT_THAT(read, ElementsAre(std::pair(0, 4), std::pair(1, 2)));
}

}  // namespace
}  // namespace phitap
