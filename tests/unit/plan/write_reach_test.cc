// How far runs go that edits read.
#include <gmock/gmock.h>

#include "tests/support/status_matchers.h"
#include "tests/unit/plan/planning.h"

namespace phitap {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(PlanReach, GoesAsFarAsWritesReadAndNoFurther) {
  const auto plan = Plan(
      "runs { label: 'a' prompt { text: 'abcde' } } runs { label: 'b' prompt { "
      "text: 'abcde' } interventions { hook_points: 'layers.1.layer_mid' "
      "selection { positions { indices: 4 } } set { value { run { run: 'a' "
      "hook_point: 'layers.2.layer_output' } } } } interventions { "
      "hook_points: 'layers.3.layer_output' set { value { number: 0 } } } } "
      "captures { hook_points: 'layers.1.layer_output' runs: 'b' selection { "
      "positions { indices: 3 } } }");
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ((*plan)->runs[0].reach.layer_count, 3);
  EXPECT_THAT((*plan)->runs[0].reach.tail_positions, ElementsAre(4));
  // A write asks for nothing itself.
  EXPECT_EQ((*plan)->runs[1].reach.layer_count, 2);
  EXPECT_THAT((*plan)->runs[1].reach.tail_positions, ElementsAre(3));
}

TEST(PlanReach, BeginsALayerWhoseInputIsEdited) {
  const std::string read = "captures { hook_points: 'layers.2.layer_input' }";
  const auto plain = Plan(absl::StrCat(kFiveTokens, read));
  ASSERT_THAT(plain, IsOk());
  EXPECT_EQ((*plain)->captures[0].read_at, (HookPoint{Hook::kLayerOutput, 1}));
  EXPECT_EQ((*plain)->runs[0].reach.layer_count, 2);
  const std::string run =
      "runs { prompt { text: 'abcde' } interventions { hook_points: "
      "'layers.2.layer_input' set { value { number: 0 } } } }";
  const auto edited = Plan(absl::StrCat(run, read));
  ASSERT_THAT(edited, IsOk());
  EXPECT_EQ((*edited)->captures[0].read_at, (HookPoint{Hook::kLayerInput, 2}));
  EXPECT_EQ((*edited)->runs[0].reach.layer_count, 3);
  EXPECT_THAT((*edited)->runs[0].reach.tail_positions, IsEmpty());
  const auto before = Plan(
      absl::StrCat(run,
                   "captures { hook_points: 'layers.2.layer_input' read_time: "
                   "READ_TIME_BEFORE }"));
  ASSERT_THAT(before, IsOk());
  EXPECT_EQ((*before)->captures[0].read_at, (HookPoint{Hook::kLayerOutput, 1}));
  EXPECT_EQ((*before)->captures[0].time, ReadTime::kAfter);
}

TEST(PlanReach, LeavesToTheGradientPassWhatOnlyItReads) {
  const std::string gradient =
      "gradients { of { run: 'a' logit { token_id: 3 } } hook_points: "
      "'layers.1.layer_output' } ";
  const std::string run = "runs { label: 'a' prompt { text: 'abcde' } } ";
  const auto alone = Plan(absl::StrCat(run, gradient));
  ASSERT_THAT(alone, IsOk());
  EXPECT_EQ((*alone)->runs[0].reach.layer_count, 0);
  const auto captured = Plan(absl::StrCat(
      run, gradient, "captures { hook_points: 'layers.0.layer_output' }"));
  ASSERT_THAT(captured, IsOk());
  EXPECT_EQ((*captured)->runs[0].reach.layer_count, 1);
  // Attribution patching reads the value itself besides its gradient.
  const auto attributed = Plan(absl::StrCat(
      run,
      "program { nodes { name: 'm' metric { run: 'a' logit { token_id: 3 } } } "
      "nodes { name: 'h' read { run: 'a' hook_point: 'layers.1.layer_output' } "
      "} nodes { name: 'g' gradient { of: 'm' with_respect_to { run: 'a' "
      "hook_point: 'layers.1.layer_output' } } } nodes { name: 'product' "
      "inputs: 'h' inputs: 'g' function: FUNCTION_MULTIPLY } } captures { "
      "node: 'product' }"));
  ASSERT_THAT(attributed, IsOk());
  EXPECT_EQ((*attributed)->runs[0].reach.layer_count, 2);
}

TEST(PlanReach, GoesNoFurtherForWhatOnlyTheRunsOwnWritesRead) {
  const auto plan = Plan(
      "runs { prompt { text: 'abcde' } interventions { hook_points: "
      "'layers.3.layer_output' skip {} } interventions { hook_points: "
      "'layers.1.layer_output' selection { positions { indices: 4 } } set { "
      "value { run { hook_point: 'layers.1.layer_mid' selection { positions { "
      "indices: 2 } } } } } } } captures { hook_points: "
      "'layers.1.layer_output' selection { positions { indices: 4 } } }");
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ((*plan)->runs[0].reach.layer_count, 2);
  EXPECT_THAT((*plan)->runs[0].reach.tail_positions, ElementsAre(2, 4));
}

}  // namespace
}  // namespace phitap
