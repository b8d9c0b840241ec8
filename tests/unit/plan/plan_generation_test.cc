#include "server/plan/runs/plan_generation.h"

#include <gmock/gmock.h>

#include "tests/support/status_matchers.h"
#include "tests/unit/plan/planning.h"

namespace phitap {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StartsWith;

std::string Generating(const std::string& generation,
                       const std::string& prompt = "text: 'abcde'") {
  return absl::StrCat("runs { prompt { ", prompt, " } generation { ",
                      generation, " } }");
}

PlannedGeneration Made(const std::string& generation) {
  const auto plan = Plan(Generating(generation));
  EXPECT_THAT(plan, IsOk());
  return plan.ok() ? *(*plan)->runs[0].generation : PlannedGeneration();
}

TEST(PlanGeneration, NeedsNothingElseToBeAskedFor) {
  const auto plan = Plan(Generating("max_tokens: 3"));
  ASSERT_THAT(plan, IsOk());
  const PlannedRun& run = (*plan)->runs[0];
  EXPECT_EQ(run.generation->max_tokens, 3);
  EXPECT_EQ(PassCount(run), 3);
  EXPECT_EQ(run.reach.layer_count, 4);
  EXPECT_THAT(run.reach.head_positions, ElementsAre(4));
  EXPECT_THAT(run.reach.tail_positions, ElementsAre(4));
  // Four layers: three of five tokens, the last of one, and two more passes.
  EXPECT_EQ((*plan)->token_layers, 3 * 5 + 1 + 2 * 4);
  EXPECT_EQ((*plan)->token_layers_full_depth, 4 * 5 + 2 * 4);
}

TEST(PlanGeneration, TakesWhatIsGiven) {
  const PlannedGeneration made = Made(
      "max_tokens: 7 temperature: 0.5 top_k: 4 top_p: 0.75 seed: 11 stop_ids: "
      "[9, 3, 9] forced_ids: [5, 6]");
  EXPECT_EQ(made.max_tokens, 7);
  EXPECT_EQ(made.temperature, 0.5);
  EXPECT_EQ(made.top_k, 4);
  EXPECT_EQ(made.top_p, 0.75);
  EXPECT_EQ(made.seed, 11u);
  EXPECT_THAT(made.stop_ids, ElementsAre(3, 9));
  EXPECT_THAT(made.forced_ids, ElementsAre(5, 6));
}

TEST(PlanGeneration, StopsAtTheCheckpointsIdsByDefault) {
  ModelSpec spec = TinySpec();
  spec.eos_ids = {7, 2};
  const PlanContext context = {
      .model = "tiny", .spec = spec, .encode = EncodeLetters};
  const auto stops = [&](const std::string& generation) {
    const auto plan = Plan(Generating(generation), context);
    EXPECT_THAT(plan, IsOk());
    return (*plan)->runs[0].generation->stop_ids;
  };
  EXPECT_THAT(stops("max_tokens: 2"), ElementsAre(2, 7));
  EXPECT_THAT(stops("max_tokens: 2 stop_ids: 4"), ElementsAre(4));
  EXPECT_THAT(stops("max_tokens: 2 ignore_stop_ids: true"), IsEmpty());
}

TEST(PlanGeneration, TakesTheModelsLastPosition) {
  // The last token needs none: 5 + 60 − 1 = 64.
  EXPECT_THAT(Plan(Generating("max_tokens: 60")), IsOk());
  EXPECT_THAT(Plan(Generating("max_tokens: 61")),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "runs[0].generation.max_tokens: 61 tokens after a "
                       "prompt of 5; valid: 1 to 60"));
  EXPECT_THAT(
      Plan(Generating("max_tokens: 5", "text: 'ab' position_ids: [0, 60]")),
      StatusIs(absl::StatusCode::kInvalidArgument,
               "runs[0].generation.max_tokens: 5 tokens after a prompt "
               "of 2; valid: 1 to 4"));
}

TEST(PlanGeneration, HoldsTheLimits) {
  PlanContext context = TinyContext();
  context.limits.max_generated_tokens = 8;
  EXPECT_THAT(Plan(Generating("max_tokens: 8"), context), IsOk());
  EXPECT_THAT(Plan(Generating("max_tokens: 9"), context),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       StartsWith("runs[0].generation.max_tokens: 9")));
  context.limits.max_run_tokens = 9;
  EXPECT_THAT(Plan(Generating("max_tokens: 5"), context), IsOk());
  EXPECT_THAT(Plan(Generating("max_tokens: 6"), context),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       StartsWith("runs[0].generation.max_tokens: 6")));
  context.limits.max_request_tokens = 8;
  EXPECT_THAT(Plan(Generating("max_tokens: 4"), context), IsOk());
  EXPECT_THAT(Plan(Generating("max_tokens: 5"), context),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       StartsWith("runs: together they have 9 tokens")));
}

TEST(PlanGeneration, RefusesWhatCannotBe) {
  const std::string field = "runs[0].generation.";
  for (const auto& [generation, message] :
       std::vector<std::pair<std::string, std::string>>{
           {"", "max_tokens: 0 tokens after a prompt of 5; valid: 1 to 60"},
           {"max_tokens: -3", "max_tokens: -3 tokens"},
           {"max_tokens: 2 temperature: -1", "temperature: -1 is none"},
           {"max_tokens: 2 temperature: nan", "temperature: nan is none"},
           {"max_tokens: 2 top_k: -1", "top_k: -1 tokens; valid: 1 or more"},
           {"max_tokens: 2 top_p: 0", "top_p: 0 is no probability"},
           {"max_tokens: 2 top_p: 1.1", "top_p: 1.1 is no probability"},
           {"max_tokens: 2 top_p: nan", "top_p: nan is no probability"},
           {"max_tokens: 2 stop_ids: [1, 50]",
            "stop_ids[1]: token id 50 is not in the vocabulary; valid: 0 to "
            "49"},
           {"max_tokens: 2 stop_ids: 1 ignore_stop_ids: true",
            "ignore_stop_ids: is set beside stop_ids"},
           {"max_tokens: 2 forced_ids: [1, -1]", "forced_ids[1]: token id -1"},
           {"max_tokens: 2 forced_ids: [1, 2, 3]",
            "forced_ids: 3 tokens; valid: at most 2, the run's max_tokens"}}) {
    EXPECT_THAT(Plan(Generating(generation)),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         StartsWith(field + message)));
  }
}

}  // namespace
}  // namespace phitap
