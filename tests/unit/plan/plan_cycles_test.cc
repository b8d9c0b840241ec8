// Runs that read each other: what can be had and what never could.
#include <gmock/gmock.h>

#include <string>

#include "tests/unit/plan/group_text.h"

namespace phitap {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(PlanCycles, LetRunsOfOneWaveReadEachOther) {
  const std::string runs = absl::StrCat(
      RunOf("a", {{"b", "layers.1.layer_output", "layers.3.layer_output"}}),
      RunOf("b", {{"a", "layers.1.layer_output", "layers.2.layer_output"}}));
  EXPECT_EQ(GroupsOf(runs + kLogits), "0 1");
  EXPECT_THAT(GroupsOf(runs + kTransformers),
              AllOf(StartsWith("runs[0].interventions[0]"),
                    HasSubstr("run \"a\" (runs[0].interventions[0]"),
                    HasSubstr("layers.3.layer_output) -> run \"b\" ("),
                    HasSubstr("layers.2.layer_output) -> run \"a\"")));
}

TEST(PlanCycles, RefuseRunsThatWouldWaitForEachOther) {
  const std::string runs = absl::StrCat(
      RunOf("a", {{"b", "layers.3.layer_output", "layers.1.layer_output"}}),
      RunOf("b", {{"a", "layers.0.layer_output", "layers.2.layer_output"}}));
  EXPECT_THAT(
      GroupsOf(runs + kLogits),
      AllOf(StartsWith("runs[0].interventions[0]"),
            HasSubstr("the edit of layers.1.layer_output needs "
                      "layers.3.layer_output of run \"b\", which comes later"),
            HasSubstr("run \"b\" (runs[1].interventions[0]"),
            HasSubstr("-> run \"a\"")));
}

TEST(PlanCycles, RefuseARunThatWaitsForItself) {
  const auto refused = [](const Patch& patch) {
    return GroupsOf(RunOf("a", {patch}) + kLogits);
  };
  EXPECT_THAT(
      refused({"a", "layers.2.layer_output", "layers.1.layer_output"}),
      AllOf(StartsWith("runs[0].interventions[0]"),
            HasSubstr("needs layers.2.layer_output of its own run \"a\"")));
  EXPECT_THAT(refused(From("a", "layers.2.layer_output")),
              HasSubstr("the edits of layers.2.layer_output need each other's "
                        "result: run \"a\""));
  Patch before = From("a", "layers.2.layer_output");
  before.time = "READ_TIME_BEFORE";
  EXPECT_EQ(refused(before), "0");
  EXPECT_EQ(refused({"a", "layers.0.mlp_output", "layers.2.mlp_output"}), "0");
  EXPECT_EQ(GroupsOf(RunOf("a", {{"a", "layers.0.mlp_output",
                                  "layers.2.mlp_output"}}) +
                     kTransformers),
            "0");
}

TEST(PlanCycles, TakeRunsAtOnePointOneAfterAnother) {
  const std::string point = "layers.2.layer_output";
  EXPECT_EQ(GroupsOf(absl::StrCat(RunOf("c", {From("b", point)}),
                                  RunOf("b", {From("a", point)}),
                                  RunOf("a", {}), kLogits)),
            "0 1 2");
  EXPECT_THAT(GroupsOf(absl::StrCat(RunOf("a", {From("b", point)}),
                                    RunOf("b", {From("a", point)}), kLogits)),
              AllOf(HasSubstr("the edits of layers.2.layer_output need each "
                              "other's result"),
                    HasSubstr("run \"a\" (runs[0].interventions[0]"),
                    HasSubstr("run \"b\" (runs[1].interventions[0]")));
  // What both had before their edits can be exchanged.
  Patch from_a = From("a", point);
  Patch from_b = From("b", point);
  from_a.time = from_b.time = "READ_TIME_BEFORE";
  EXPECT_EQ(GroupsOf(absl::StrCat(RunOf("a", {from_b}), RunOf("b", {from_a}),
                                  kLogits)),
            "0 1");
}

}  // namespace
}  // namespace phitap
