#include "server/plan/order/plan_groups.h"

#include <gmock/gmock.h>

#include <numeric>
#include <random>
#include <set>

#include "absl/strings/str_join.h"
#include "server/plan/order/forward_order.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/plan/group_text.h"

namespace phitap {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(PlanGroups, GiveRunsThatNeedNothingGroupsOfTheirOwn) {
  EXPECT_EQ(GroupsOf(absl::StrCat(RunOf("a", {}), RunOf("b", {}), kLogits)),
            "0 | 1");
}

TEST(PlanGroups, PutRunsThatReadWhatComesEarlierIntoOneWave) {
  const std::string runs = absl::StrCat(
      RunOf("a", {}), RunOf("b", {From("a", "layers.1.layer_output")}));
  EXPECT_EQ(GroupsOf(runs + kLogits), "0 1");
  const std::string later = absl::StrCat(
      RunOf("a", {}),
      RunOf("b", {{"a", "layers.1.mlp_input", "layers.1.mlp_output"}}));
  EXPECT_EQ(GroupsOf(later + kLogits), "0 1");
  EXPECT_EQ(
      GroupsOf(RunOf("b", {From("a", "logits")}) + RunOf("a", {}) + kLogits),
      "0 1");
}

TEST(PlanGroups, LetEveryRunWaitWhereNoneShareAWave) {
  const std::string runs = absl::StrCat(
      RunOf("a", {}), RunOf("b", {From("a", "layers.1.layer_output")}),
      RunOf("c", {From("b", "layers.1.layer_output")}));
  EXPECT_EQ(GroupsOf(runs + kTransformers), "0 | 1 (0) | 2 (1)");
  PlanContext alone = TinyContext();
  alone.wave_sharing = WaveSharing::kAlone;
  EXPECT_EQ(GroupsOf(runs + kLogits, alone), "0 | 1 (0) | 2 (1)");
}

TEST(PlanGroups, LetAPatchscopeWaitForTheLaterLayer) {
  const std::string runs = absl::StrCat(
      RunOf("b", {{"a", "layers.3.layer_output", "layers.0.layer_output"}}),
      RunOf("a", {}));
  EXPECT_EQ(GroupsOf(runs + kLogits), "1 | 0 (0)");
}

TEST(PlanGroups, ChainRunsOverAsManyStagesAsTheyNeed) {
  const Patch back = {"a", "layers.2.layer_output", "layers.1.mlp_output"};
  Patch further = back;
  further.from_run = "b";
  EXPECT_EQ(GroupsOf(absl::StrCat(RunOf("c", {further}), RunOf("b", {back}),
                                  RunOf("a", {}), kLogits)),
            "2 | 1 (0) | 0 (1)");
  // c reads both; what it reads of a could come from a's own wave.
  EXPECT_EQ(GroupsOf(absl::StrCat(
                RunOf("a", {}), RunOf("b", {back}),
                RunOf("c", {further, From("a", "layers.3.mlp_up")}), kLogits)),
            "0 | 1 (0) | 2 (0 1)");
  // In one wave: every value comes earlier.
  EXPECT_EQ(
      GroupsOf(absl::StrCat(
          RunOf("a", {}),
          RunOf("b", {{"a", "layers.0.mlp_input", "layers.1.mlp_output"}}),
          RunOf("c", {{"b", "layers.2.mlp_input", "layers.2.mlp_output"}}),
          kLogits)),
      "0 1 2");
}

TEST(PlanGroups, HaveWholePatternsOnlyAfterTheLayersAttention) {
  const auto groups = [](const std::string& from, const std::string& into) {
    return GroupsOf(
        absl::StrCat(RunOf("a", {}), RunOf("b", {{"a", from, into}}), kLogits));
  };
  const std::string scores = "layers.1.attention_scores";
  const std::string probabilities = "layers.1.attention_probabilities";
  EXPECT_EQ(groups(probabilities, probabilities), "0 | 1 (0)");
  EXPECT_EQ(groups(scores, probabilities), "0 | 1 (0)");
  EXPECT_EQ(groups("layers.0.attention_probabilities", probabilities), "0 1");
  EXPECT_THAT(GroupsOf(RunOf("a", {{"a", scores, probabilities}}) + kLogits),
              HasSubstr("of its own run"));
}

TEST(PlanGroups, PlaceReadsOfALayersInput) {
  // The input of layer 2 is the output of layer 1, which b edits as well.
  const std::string patched =
      RunOf("b", {{"a", "layers.2.layer_input", "layers.1.layer_output"}});
  EXPECT_EQ(GroupsOf(absl::StrCat(RunOf("a", {}), patched, kLogits)), "0 1");
  // Unless it is edited itself: then it comes one step later.
  const std::string edited = RunOf("a", {From("c", "layers.2.layer_input")});
  EXPECT_EQ(GroupsOf(absl::StrCat(edited, patched, RunOf("c", {}), kLogits)),
            "0 2 | 1 (0)");
}

constexpr char kMetric[] =
    "nodes { name: 'm' metric { run: 'a' logit { token_id: 3 } } }"
    "nodes { name: 'g' gradient { of: 'm' with_respect_to { run: 'a' "
    "hook_point: 'layers.1.layer_output' } } }";

TEST(PlanGroups, ComputeGradientsBetweenTheirRunAndThoseThatNeedThem) {
  const std::string steered =
      "runs { label: 'b' prompt { tokens { ids: [4,5,6] } } interventions { "
      "hook_points: 'layers.2.mlp_output' add { value { node: 'g' } } } }";
  EXPECT_EQ(GroupsOf(absl::StrCat(steered, RunOf("a", {}), "program {", kMetric,
                                  "}", kLogits)),
            "1 | <1> (0) | 0 (1)");
}

TEST(PlanGroups, RefuseARunThatNeedsAGradientOfItself) {
  const std::string steered =
      "runs { label: 'a' prompt { tokens { ids: [4,5,6] } } interventions { "
      "hook_points: 'layers.2.mlp_output' add { value { node: 'g' } } } }";
  EXPECT_THAT(
      GroupsOf(absl::StrCat(steered, "program {", kMetric, "}", kLogits)),
      AllOf(StartsWith("runs[0].interventions[0]"),
            HasSubstr("run \"a\" (runs[0].interventions[0]"),
            HasSubstr("a gradient of run \"a\" -> run \"a\"")));
}

TEST(PlanGroups, LetAGradientWaitForAllThatItsMetricReads) {
  EXPECT_EQ(GroupsOf(absl::StrCat(
                RunOf("a", {}), RunOf("b", {}), RunOf("c", {}),
                "gradients { of { run: 'b' kl { from_run: 'c' } } hook_points: "
                "'layers.1.layer_output' }")),
            "0 | 1 | 2 | <1> (1 2)");
}

TEST(PlanGroups, WaitForWhatAConditionReads) {
  const std::string gated =
      "runs { label: 'b' prompt { tokens { ids: [4,5,6] } } interventions { "
      "hook_points: 'layers.0.mlp_output' when: 'w' scale { value { number: 2 "
      "} } } }";
  const std::string program =
      "program { nodes { name: 'r' read { run: 'a' hook_point: "
      "'layers.3.mlp_output' } } nodes { name: 'w' inputs: 'r' reduce { kind: "
      "REDUCE_KIND_MAX } } }";
  EXPECT_EQ(GroupsOf(absl::StrCat(gated, RunOf("a", {}), program, kLogits)),
            "1 | 0 (0)");
}

TEST(PlanGroups, KeepWavesOfLinkedRunsSmall) {
  PlanContext context = TinyContext();
  context.limits.max_linked_tokens = 6;
  const Patch patch = From("a", "layers.1.layer_output");
  const std::string runs =
      absl::StrCat(RunOf("a", {}), RunOf("b", {patch}), RunOf("c", {patch}),
                   RunOf("d", {From("c", "layers.2.layer_output")}));
  EXPECT_EQ(GroupsOf(runs + kLogits, context), "0 1 | 2 3 (0)");
  EXPECT_EQ(GroupsOf(runs + kLogits), "0 1 2 3");
}

// Random edits between random runs, checked against the rule itself: a run
// comes after what it reads, or in its group where the read comes earlier in
// the forward, and a group after those that it names.
TEST(PlanGroups, OrderRandomRequestsSoThatEveryValueIsThere) {
  std::mt19937 random(11);
  int planned = 0;
  int shared = 0;
  for (int round = 0; round < 400; ++round) {
    const int run_count = 2 + static_cast<int>(random() % 5);
    std::string text;
    for (int run = 0; run < run_count; ++run) {
      std::vector<Patch> patches;
      for (int i = static_cast<int>(random() % 3); i > 0; --i) {
        const auto point = [&] {
          const char* names[] = {"layer_output", "mlp_output", "layer_mid"};
          return absl::StrCat("layers.", random() % 4, ".",
                              names[random() % 3]);
        };
        patches.push_back(
            {absl::StrCat("r", random() % run_count), point(), point(),
             random() % 2 ? "READ_TIME_AFTER" : "READ_TIME_BEFORE"});
      }
      text += RunOf(absl::StrCat("r", run), patches);
    }
    const auto result = Plan(text + kLogits);
    if (!result.ok()) {
      EXPECT_THAT(result, StatusIs(absl::StatusCode::kInvalidArgument,
                                   StartsWith("runs[")));
      continue;
    }
    ++planned;
    const TracePlan& plan = **result;
    std::vector<int> group_of(plan.runs.size(), -1);
    for (size_t i = 0; i < plan.groups.size(); ++i) {
      shared += plan.groups[i].runs.size() > 1 ? 1 : 0;
      for (int run : plan.groups[i].runs) {
        EXPECT_EQ(group_of[run], -1);
        group_of[run] = static_cast<int>(i);
      }
    }
    for (const PlannedWrite& write : plan.writes) {
      const auto& read = std::get<RunRead>(plan.nodes[write.value].operation);
      const int own = group_of[write.run];
      const int other = group_of[read.run];
      ASSERT_GE(other, 0);
      if (own == other) {
        EXPECT_LE(ReadyMoment(read, TinySpec()),
                  NeedMoment(plan, write, TinySpec()));
      } else {
        EXPECT_LT(other, own);
        EXPECT_THAT(plan.groups[own].after, ::testing::Contains(other));
      }
    }
  }
  EXPECT_GT(planned, 100);
  EXPECT_GT(shared, 50);
}

// As many cells as are allowed, in time and memory linear in them: the plan has
// a few nodes a cell, and groups that name one other.
TEST(PlanGroups, PlanTheLargestSweep) {
  std::vector<int> ids(32, 7);
  std::vector<int> scales(128);
  std::iota(scales.begin(), scales.end(), 1);
  const auto plan = Plan(absl::StrCat(
      "runs { label: 'a' prompt { tokens { ids: [", absl::StrJoin(ids, ","),
      "] } } } runs { label: 'b' prompt { same_as: 'a' } }",
      "sweeps { run: 'b' interventions { hook_points: 'layers.*.layer_output' "
      "add { value { run { run: 'a' } } } } axes { layers {} } axes { "
      "positions {} } axes { scales { scales: [",
      absl::StrJoin(scales, ","),
      "] } } metrics { label: 'kl' kl { from_run: 'a' } } }"));
  ASSERT_THAT(plan, IsOk());
  constexpr size_t kCells = 16384;
  EXPECT_EQ((*plan)->runs.size(), kCells + 2);
  EXPECT_EQ((*plan)->outputs.size(), kCells);
  EXPECT_LT((*plan)->nodes.size(), 16 * kCells);
  size_t run_count = 0;
  for (const RunGroup& group : (*plan)->groups) {
    run_count += group.runs.size();
    EXPECT_LE(group.after.size(), 1);
    int64_t tokens = 0;
    for (int run : group.runs) tokens += (*plan)->runs[run].own_token_count;
    EXPECT_LE(tokens, Limits().max_linked_tokens);
  }
  EXPECT_EQ(run_count, kCells + 2);
}

// A sweep over `positions` of prompts of `token_count` tokens, four layers
// each.
std::string SweepGroups(int token_count, const std::string& positions) {
  ModelSpec spec = TinySpec();
  spec.max_positions = token_count;
  const PlanContext context = {.model = "long", .spec = spec};
  const std::vector<int> clean(token_count, 7);
  const std::vector<int> corrupt(token_count, 8);
  return GroupsOf(
      absl::StrCat(
          "runs { label: 'clean' prompt { tokens { ids: [",
          absl::StrJoin(clean, ","),
          "] } } } runs { label: 'corrupt' prompt { tokens { ids: [",
          absl::StrJoin(corrupt, ","),
          "] } } } sweeps { run: 'corrupt' interventions { hook_points: "
          "'layers.*.layer_output' set { value { run { run: 'clean' } } } } "
          "axes { layers {} } axes { positions { positions { ",
          positions, " } } } metrics { logit { token_id: 3 } } }"),
      context);
}

// What the cells have in common with the run that they are cells of is computed
// once, so that they cost the wave next to nothing.
TEST(PlanGroups, LetCellsShareTheWaveOfTheRunThatTheyRead) {
  EXPECT_EQ(SweepGroups(4096, "indices: -1"), "0 2 3 4 5 | 1");
  EXPECT_EQ(SweepGroups(4096, "indices: 3072"), "0 2 3 4 5 | 1");
  // Past what a wave should have, cells come once the values that they read are
  // there, each when there is room.
  EXPECT_EQ(SweepGroups(4096, "indices: 3070"), "0 2 3 4 | 1 | 5 (0)");
  EXPECT_EQ(SweepGroups(4096, "indices: 1024"),
            "0 2 | 1 | 3 (0) | 4 (0) | 5 (0)");
}

}  // namespace
}  // namespace phitap
