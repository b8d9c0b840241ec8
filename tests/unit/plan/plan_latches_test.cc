// Groups of runs that generate, and latches in them.
#include <gmock/gmock.h>

#include <string>
#include <variant>

#include "tests/support/status_matchers.h"
#include "tests/unit/plan/group_text.h"

namespace phitap {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Generating(const std::string& edit) {
  return absl::StrCat(
      "runs { label: 'a' prompt { tokens { ids: [1,2,3] } } generation { "
      "max_tokens: 4 } interventions { ",
      edit, " } }");
}

TEST(PlanLatches, LetEditsOfGeneratedTokensReadTheWholePrompt) {
  const std::string edit =
      "hook_points: 'layers.1.layer_output' set { value { run { hook_point: "
      "'layers.3.layer_output' selection { positions { indices: -1 } } } } }";
  EXPECT_EQ(GroupsOf(Generating(
                edit + " selection { steps { ranges { start: 1 } } }")),
            "0");
  EXPECT_THAT(GroupsOf(Generating(edit)), HasSubstr("of its own run"));
}

std::string LatchOf(const std::string& read) {
  return absl::StrCat(
      "program { nodes { name: 'r' read { run: 'a' hook_point: '", read,
      "' selection { positions { indices: -1 } } } } nodes { name: 'big' "
      "inputs: 'r' reduce { kind: REDUCE_KIND_MAX } } nodes { name: 'l' "
      "inputs: 'big' latch {} } }");
}

constexpr char kLatched[] =
    "hook_points: 'layers.2.layer_output' when: 'l' scale { value { number: 2 "
    "} }";

TEST(PlanLatches, LetALatchLookAtEveryPassOfItsRun) {
  const auto plan =
      Plan(Generating(kLatched) + LatchOf("layers.1.layer_output"));
  ASSERT_THAT(plan, IsOk());
  int every_pass = 0;
  int prompt_only = 0;
  for (const ProgramNode& node : (*plan)->nodes) {
    const auto* read = std::get_if<RunRead>(&node.operation);
    if (read == nullptr) continue;
    const bool every = read->passes == RunRead::Passes::kEvery;
    EXPECT_EQ(node.every_pass, every);
    (every ? every_pass : prompt_only) += 1;
  }
  // The node of the caller's name still is the prompt's.
  EXPECT_EQ(every_pass, 1);
  EXPECT_EQ(prompt_only, 1);
  const PlannedWrite& write = (*plan)->writes.front();
  const ProgramNode& latch = (*plan)->nodes[write.condition];
  EXPECT_TRUE(latch.every_pass);
  EXPECT_EQ(std::get<LatchOp>(latch.operation).run, 0);
}

TEST(PlanLatches, RefuseALatchThatLooksAtWhatComesLater) {
  const std::string later = LatchOf("layers.3.layer_output");
  EXPECT_THAT(GroupsOf(Generating(kLatched) + later),
              HasSubstr("needs layers.3.layer_output of its own run"));
  EXPECT_THAT(GroupsOf(Generating(std::string(kLatched) +
                                  " selection { steps { indices: 2 } }") +
                       later),
              HasSubstr("needs layers.3.layer_output of its own run"));
}

TEST(PlanLatches, RefuseLatchesThatHaveNoValueInEveryPass) {
  const std::string point = LatchOf("layers.1.layer_output");
  const std::string still =
      "runs { label: 'a' prompt { tokens { ids: [1,2,3] } } }";
  EXPECT_THAT(
      GroupsOf(still + point + kLogits),
      HasSubstr("program.nodes[2]: run \"a\", which the latch looks at, "
                "does not generate"));
  EXPECT_THAT(
      GroupsOf(Generating(kLatched) + LatchOf("layers.1.attention_scores")),
      HasSubstr("selection.positions"));
  std::string whole = point;
  const size_t at = whole.find("indices: -1");
  whole.replace(at, 11, "indices: 0");
  EXPECT_THAT(GroupsOf(Generating(kLatched) + whole),
              HasSubstr("of other positions than the last"));
  // Captured, or in an edit of another run.
  EXPECT_THAT(GroupsOf(Generating(kLatched) + point +
                       "captures { node: 'l' label: 'l' }"),
              AllOf(StartsWith("program.nodes[2]"), HasSubstr("a latch")));
  EXPECT_THAT(GroupsOf(Generating(kLatched) + point +
                       "runs { label: 'b' prompt { same_as: 'a' } "
                       "interventions { " +
                       kLatched + " } }"),
              HasSubstr("a latch of another run than \"b\""));
}

TEST(PlanLatches, RefuseALatchOverALongropeRecompute) {
  static const ModelSpec& spec = *new ModelSpec([] {
    ModelSpec long_rope = TinyGrouped();
    long_rope.longrope = LongRope{.short_factor = {1, 1},
                                  .long_factor = {2, 2},
                                  .original_max_positions = 5};
    return long_rope;
  }());
  const PlanContext context = {.model = "long", .spec = spec};
  const std::string request =
      Generating(kLatched) + LatchOf("layers.1.layer_output");
  EXPECT_THAT(GroupsOf(request, context), HasSubstr("may pass position 5"));
  EXPECT_EQ(GroupsOf(request + "options { longrope_cache: "
                               "LONGROPE_CACHE_KEEP }",
                     context),
            "0");
}

}  // namespace
}  // namespace phitap
