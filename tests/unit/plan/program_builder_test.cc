#include "server/plan/program/program_builder.h"

#include <gmock/gmock.h>

#include "tests/support/status_matchers.h"
#include "tests/unit/plan/programming.h"

namespace phitap {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr HookPoint kResidual = {Hook::kLayerOutput, 1};

TEST(ProgramBuilder, GivesAReadTheShapeOfItsPart) {
  PlannedRuns runs(kTwoRuns);
  RunRead read = ReadOf(1, kResidual);
  read.selection.features = {2, 3};
  const auto node = runs.builder.AddRead(read, "here");
  ASSERT_THAT(node, IsOk());
  EXPECT_EQ(runs.builder.ShapeOf(*node), (Shape{3, 2}));
  EXPECT_FALSE(runs.plan.nodes[*node].in_write);
}

TEST(ProgramBuilder, MakesEqualReadsAndNumbersOnce) {
  PlannedRuns runs(kTwoRuns);
  const int read = *runs.builder.AddRead(ReadOf(0, kResidual), "here");
  EXPECT_EQ(*runs.builder.AddRead(ReadOf(0, kResidual), "there"), read);
  EXPECT_NE(*runs.builder.AddRead(ReadOf(1, kResidual), "there"), read);
  EXPECT_NE(*runs.builder.AddRead(ReadOf(0, kResidual, ReadTime::kBefore), ""),
            read);
  EXPECT_NE(*runs.builder.AddRead(ReadOf(0, {Hook::kLayerOutput, 2}), ""),
            read);
  RunRead part = ReadOf(0, kResidual);
  part.selection.positions = {1};
  const int position = *runs.builder.AddRead(part, "");
  part.selection.positions.reset();
  part.selection.features = {1};
  EXPECT_NE(*runs.builder.AddRead(part, ""), position);

  const int half = *runs.builder.AddNumber(0.5, "");
  EXPECT_EQ(*runs.builder.AddNumber(0.5, ""), half);
  EXPECT_NE(*runs.builder.AddNumber(-0.5, ""), half);
  EXPECT_NE(*runs.builder.AddNumber(0.0, ""),
            *runs.builder.AddNumber(-0.0, ""));
}

TEST(ProgramBuilder, RefusesReadsOfIntegers) {
  PlannedRuns runs(kTwoRuns);
  for (Hook hook : {Hook::kInputIds, Hook::kAttentionMask, Hook::kInputSize}) {
    EXPECT_THAT(runs.builder.AddRead(ReadOf(0, {hook}), "here"),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("holds integers")));
    EXPECT_THAT(runs.builder.AddNoise({.like = ReadOf(0, {hook})}, {}, "here"),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("holds integers")));
  }
  EXPECT_THAT(runs.builder.AddRead(ReadOf(0, {Hook::kRotaryCos}), ""), IsOk());
  EXPECT_THAT(runs.builder.AddRead(ReadOf(0, {Hook::kNextTokenProbs}), ""),
              IsOk());
}

TEST(ProgramBuilder, MarksWhatDependsOnTheEditedPart) {
  PlannedRuns runs(kTwoRuns);
  const int current = *runs.builder.AddCurrent({5, 24}, "here");
  const int number = *runs.builder.AddNumber(2, "here");
  const int twice = *runs.builder.Add(FunctionOp{Function::kMultiply},
                                      {current, number}, "here");
  const int flat = *runs.builder.AddReshape(twice, {-1}, "here");
  const int noise = *runs.builder.AddNoise({.seed = 1}, {5, 24}, "here");
  const int elsewhere =
      *runs.builder.AddNoise({.like = ReadOf(0, kResidual)}, {}, "here");
  for (int node : {current, twice, flat, noise}) {
    EXPECT_TRUE(runs.plan.nodes[node].in_write) << node;
  }
  for (int node : {number, elsewhere}) {
    EXPECT_FALSE(runs.plan.nodes[node].in_write) << node;
  }
  EXPECT_EQ(runs.builder.ShapeOf(flat), Shape{120});
  EXPECT_EQ(runs.builder.ShapeOf(elsewhere), (Shape{5, 24}));
}

TEST(ProgramBuilder, HoldsTheLimitOnNodes) {
  PlanContext context = TinyContext();
  context.limits.max_lowered_nodes = 2;
  PlannedRuns runs(kTwoRuns, context);
  EXPECT_THAT(runs.builder.AddNumber(1, ""), IsOk());
  EXPECT_THAT(runs.builder.AddNumber(2, ""), IsOk());
  EXPECT_THAT(runs.builder.AddNumber(1, ""), IsOk());
  EXPECT_THAT(runs.builder.AddNumber(3, "here"),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       StartsWith("here: brings the request to 3 nodes")));
}

TEST(ProgramBuilder, HoldsTheLimitOnConstantsButNotOnKeptTensors) {
  PlanContext context = TinyContext();
  context.limits.max_constant_bytes = 40;
  PlannedRuns runs(kTwoRuns, context);
  EXPECT_THAT(runs.builder.AddConstant(Zeros({5}), ""), IsOk());
  EXPECT_THAT(runs.builder.AddKept(Zeros({100}), ""), IsOk());
  EXPECT_THAT(runs.builder.AddConstant(Zeros({5}), ""), IsOk());
  EXPECT_THAT(runs.builder.AddConstant(Zeros({1}), "here"),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("to 44 bytes; valid: at most 40")));
}

TEST(ProgramBuilder, HoldsTheLimitOnANodesBytes) {
  PlanContext context = TinyContext();
  context.limits.max_node_bytes = 400;
  PlannedRuns runs(kTwoRuns, context);
  const int column = *runs.builder.AddConstant(Zeros({20, 1}), "");
  const int row = *runs.builder.AddConstant(Zeros({6}), "");
  EXPECT_THAT(
      runs.builder.Add(FunctionOp{Function::kAdd}, {column, row}, "here"),
      StatusIs(absl::StatusCode::kResourceExhausted,
               HasSubstr("[20, 6] has 480 bytes")));
  EXPECT_THAT(runs.builder.AddRead(ReadOf(0, kResidual), "here"),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("[5, 24] has 480 bytes")));
}

TEST(ProgramBuilder, HoldsTheLimitOnWhatTheModelMakesForARead) {
  PlanContext context = TinyContext();
  context.limits.max_value_bytes = 100;
  PlannedRuns runs(kTwoRuns, context);
  RunRead read = ReadOf(0, {Hook::kLogits});
  read.selection.features = {7};
  EXPECT_THAT(runs.builder.AddRead(read, "here"),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("500 bytes; valid: at most 100")));
  read.selection.positions = {4};
  EXPECT_THAT(runs.builder.AddRead(read, "here"), IsOk());
}

TEST(ProgramBuilder, HoldsTheLimitOnSelectedIndices) {
  PlanContext context = TinyContext();
  context.limits.max_selected_indices = 3;
  PlannedRuns runs(kTwoRuns, context);
  RunRead read = ReadOf(0, kResidual);
  read.selection.positions = {0, 1};
  EXPECT_THAT(runs.builder.AddRead(read, ""), IsOk());
  EXPECT_THAT(runs.builder.AddRead(read, ""), IsOk());
  EXPECT_THAT(runs.builder.AddGradient(read, "here"),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("4 selected indices; valid: at most 3")));
}

TEST(ProgramBuilder, RefusesNumbersThatFloat32DoesNotHold) {
  PlannedRuns runs(kTwoRuns);
  EXPECT_THAT(
      runs.builder.AddNumber(1e39, "here"),
      StatusIs(absl::StatusCode::kInvalidArgument, StartsWith("here: 1e+39")));
}

}  // namespace
}  // namespace phitap
