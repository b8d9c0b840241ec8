#include "server/plan/sweeps/expand_sweeps.h"

#include <gmock/gmock.h>

#include "server/plan/describe.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/plan/expression.h"
#include "tests/unit/plan/sweeps.h"

namespace phitap {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Every write of one run: what is edited, and how.
std::vector<std::string> WritesOf(const TracePlan& plan, int run) {
  std::vector<std::string> writes;
  for (const PlannedWrite& write : plan.writes) {
    if (write.run != run) continue;
    writes.push_back(absl::StrCat(FullName(write.point),
                                  SelectionText(write.selection), " <- ",
                                  Expression(plan, write.value)));
  }
  return writes;
}

TEST(ExpandSweeps, PatchesEveryLayerAndPosition) {
  const auto plan = Plan(Swept(
      absl::StrCat("label: 'grid' ", kPatch, kMetric,
                   "axes { layers {} } axes { positions { positions { indices: "
                   "[4, 1, 2] } } }")));
  ASSERT_THAT(plan, IsOk());
  const TracePlan& made = **plan;
  ASSERT_EQ(made.runs.size(), 2u + 12u);
  EXPECT_EQ(made.runs[2].label, "grid[0, 0]");
  EXPECT_EQ(made.runs[2 + 11].label, "grid[3, 2]");
  EXPECT_EQ(made.runs[2].sweep, 0);
  EXPECT_EQ(made.runs[1].sweep, -1);
  EXPECT_EQ(made.runs[2 + 7].ids, made.runs[1].ids);
  // Row 2, column 1: layer 2, position 1.
  EXPECT_THAT(WritesOf(made, 2 + 7),
              ElementsAre("layers.0.layer_mid <- multiply(x, 2)",
                          "layers.2.layer_output positions=1 <- "
                          "clean:layers.2.layer_output positions=1"));
  EXPECT_THAT(WritesOf(made, 1),
              ElementsAre("layers.0.layer_mid <- multiply(x, 2)"));
}

TEST(ExpandSweeps, AnswersWithOneTensorAMetric) {
  const auto plan = Plan(
      Swept(absl::StrCat(kPatch, kMetric,
                         "metrics { label: 'p' probability { token_id: 7 } }"
                         "axes { positions {} } axes { layers {} }")));
  ASSERT_THAT(plan, IsOk());
  ASSERT_EQ((*plan)->tensors.size(), 2u);
  const PlannedTensor& tensor = (*plan)->tensors[1];
  EXPECT_EQ(tensor.label, "sweep0");
  EXPECT_EQ(tensor.part, "p");
  EXPECT_EQ(tensor.run, -1);
  EXPECT_FALSE(tensor.has_point);
  EXPECT_THAT(tensor.shape, ElementsAre(5, 4));
  EXPECT_THAT(tensor.dimension_names, ElementsAre("position", "layer"));
  EXPECT_EQ((*plan)->outputs.size(), 2u * 20u);
  // Cells are no runs of the caller's.
  EXPECT_EQ(DescribePlan(**plan).runs_size(), 2);
}

TEST(ExpandSweeps, EditsWindowsOfLayersAsFarAsThereAre) {
  const auto plan = Plan(Swept(absl::StrCat(
      "interventions { hook_points: 'layers.{0,1,3}.mlp_output' set { value { "
      "number: 0 } } }",
      kMetric, "axes { layers { window: 2 } }")));
  ASSERT_THAT(plan, IsOk());
  ASSERT_EQ((*plan)->runs.size(), 5u);
  const std::string own = "layers.0.layer_mid <- multiply(x, 2)";
  EXPECT_THAT(WritesOf(**plan, 2),
              ElementsAre(own, "layers.0.mlp.mlp_output <- 0",
                          "layers.1.mlp.mlp_output <- 0"));
  EXPECT_THAT(WritesOf(**plan, 3),
              ElementsAre(own, "layers.1.mlp.mlp_output <- 0",
                          "layers.3.mlp.mlp_output <- 0"));
  EXPECT_THAT(WritesOf(**plan, 4),
              ElementsAre(own, "layers.3.mlp.mlp_output <- 0"));
}

TEST(ExpandSweeps, EditsHeadsAndQueries) {
  const auto plan = Plan(Swept(absl::StrCat(
      "interventions { hook_points: 'layers.1.attention_scores' selection { "
      "keys { indices: 0 } } knockout {} }",
      kMetric,
      "axes { heads { heads { indices: [5, 0] } } } axes { positions "
      "{ positions { indices: -1 } } }")));
  ASSERT_THAT(plan, IsOk());
  const std::string scores = FullName({Hook::kAttentionScores, 1});
  EXPECT_THAT(WritesOf(**plan, 2),
              ElementsAre(testing::_, absl::StrCat(scores,
                                                   " heads=5 queries=4 keys=0 "
                                                   "<- -inf")));
  EXPECT_THAT(WritesOf(**plan, 3),
              ElementsAre(testing::_, absl::StrCat(scores,
                                                   " heads=0 queries=4 keys=0 "
                                                   "<- -inf")));
}

TEST(ExpandSweeps, MultipliesAndReplacesScales) {
  const auto plan = Plan(Swept(absl::StrCat(
      "interventions { hook_points: 'layers.1.layer_mid' add { value { number: "
      "5 } scale: 2 } }"
      "interventions { hook_points: 'layers.1.layer_mid' noise { scale: 0.5 } "
      "}"
      "interventions { hook_points: 'layers.1.layer_mid' scale { value { "
      "number: 9 } } }"
      "interventions { hook_points: 'layers.1.layer_mid' clamp { low: 0 } }",
      kMetric, "axes { scales { scales: [0.5, 3] } }")));
  ASSERT_THAT(plan, IsOk());
  EXPECT_THAT(WritesOf(**plan, 2),
              ElementsAre(testing::_, "layers.1.layer_mid <- add(x, 5)",
                          "layers.1.layer_mid <- add(x, multiply(noise<0>, "
                          "0.25))",
                          "layers.1.layer_mid <- multiply(x, 0.5)",
                          "layers.1.layer_mid <- clamp<0:>(x)"));
  EXPECT_THAT(
      WritesOf(**plan, 3),
      ElementsAre(testing::_, "layers.1.layer_mid <- add(x, multiply(5, 6))",
                  "layers.1.layer_mid <- add(x, multiply(noise<0>, "
                  "1.5))",
                  "layers.1.layer_mid <- multiply(x, 3)",
                  "layers.1.layer_mid <- clamp<0:>(x)"));
}

TEST(ExpandSweeps, SharesWhatCellsHaveInCommon) {
  const std::string sweep = absl::StrCat(
      "interventions { hook_points: 'layers.*.layer_mid' project_out { "
      "direction { tensor { dtype: DATA_TYPE_F16 shape: 24 data: '",
      std::string(48, 'a'), "' } } } }", kMetric,
      "axes { layers {} } axes { positions {} }");
  const auto plan = Plan(Swept(sweep));
  ASSERT_THAT(plan, IsOk());
  int constants = 0;
  for (const ProgramNode& node : (*plan)->nodes) {
    const auto* constant = std::get_if<ConstantValue>(&node.operation);
    constants += constant != nullptr && !constant->value.shape.empty();
  }
  EXPECT_EQ(constants, 1);
}

TEST(ExpandSweeps, LeavesGenerationToTheRunItself) {
  const auto plan = Plan(absl::StrCat(
      "runs { label: 'r' prompt { text: 'abc' } generation { max_tokens: 4 } "
      "interventions { hook_points: 'layers.0.layer_mid' scale { value { "
      "number: 2 } } } interventions { hook_points: 'layers.0.layer_mid' "
      "selection { steps { indices: [1, 2] } } scale { value { number: 3 } } } "
      "} sweeps { run: 'r' ",
      "interventions { hook_points: 'layers.*.mlp_output' skip {} }", kMetric,
      "axes { layers {} } }"));
  ASSERT_THAT(plan, IsOk());
  EXPECT_TRUE((*plan)->runs[0].generation.has_value());
  EXPECT_FALSE((*plan)->runs[1].generation.has_value());
  EXPECT_THAT(WritesOf(**plan, 1),
              ElementsAre("layers.0.layer_mid <- multiply(x, 2)",
                          "layers.0.mlp.mlp_output <- 0"));
  for (const PlannedWrite& write : (*plan)->writes) {
    EXPECT_EQ(write.steps.has_generated(), write.run == 0);
  }
}

TEST(ExpandSweeps, KeepsCellsOutOfCapturesOfAllRuns) {
  const auto plan = Plan(absl::StrCat(
      Swept(absl::StrCat(kPatch, kMetric, "axes { layers {} }")), kLogits));
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ((*plan)->captures.size(), 2u);
}

TEST(ExpandSweeps, HoldsTheLimitsOnCellsAndTokens) {
  const std::string request = Swept(absl::StrCat(
      kPatch, kMetric, "axes { layers {} } axes { positions {} }"));
  PlanContext context = TinyContext();
  context.limits.max_sweep_cells = 20;
  context.limits.max_request_tokens = 10 + 20 * 5;
  // Only the caller's own runs count.
  context.limits.max_runs = 2;
  EXPECT_THAT(Plan(request, context), IsOk());
  context.limits.max_sweep_cells = 19;
  EXPECT_THAT(Plan(request, context),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       "sweeps[0].axes: bring the request to 20 cells; valid: "
                       "at most 19"));
  context.limits.max_sweep_cells = 20;
  context.limits.max_request_tokens -= 1;
  EXPECT_THAT(Plan(request, context),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("bring the request's runs to 110 tokens")));
}

TEST(ExpandSweeps, LeavesARequestWithoutSweepsAsItIs) {
  const auto plan = Plan(absl::StrCat(kRuns, kLogits));
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ((*plan)->runs.size(), 2u);
  EXPECT_THAT((*plan)->outputs, IsEmpty());
}

}  // namespace
}  // namespace phitap
