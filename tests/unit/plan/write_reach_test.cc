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

}  // namespace
}  // namespace phitap
