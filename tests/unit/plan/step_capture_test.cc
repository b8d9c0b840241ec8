// What is read and edited in which pass.
#include <gmock/gmock.h>

#include "server/plan/describe.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/plan/edits.h"
#include "tests/unit/plan/expression.h"

namespace phitap {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

// A run of five tokens, ids 0 to 4, that generates up to four.
std::string Generating(const std::string& rest, const std::string& edits = "") {
  return absl::StrCat(
      "runs { label: 'r' prompt { text: 'abcde' } generation { "
      "max_tokens: 4 } ",
      edits, " }", rest);
}
std::string Captured(const std::string& selection,
                     const std::string& hook_points = "layers.1.layer_mid") {
  return Generating(absl::StrCat("captures { hook_points: '", hook_points,
                                 "' selection { ", selection, " } }"));
}
std::string EditedWith(const std::string& selection, const std::string& change,
                       const std::string& hook_points = "layers.1.layer_mid") {
  return Generating(
      "", absl::StrCat("interventions { hook_points: '", hook_points,
                       "' selection { ", selection, " } ", change, " }"));
}

struct Passes {
  std::string selection;
  std::vector<int> steps;
  std::vector<int32_t> token_ids;
};

TEST(PlanCaptures, TakesPartInThePassesThatTheSelectionSays) {
  for (const Passes& passes : std::vector<Passes>{
           {"", {0, 1, 2, 3}, {}},
           {"positions { indices: [1, 2] }", {0}, {}},
           {"heads { indices: 0 }", {0, 1, 2, 3}, {}},
           {"steps { indices: 0 }", {0}, {}},
           {"steps { indices: [-1, 1] }", {1, 3}, {}},
           {"steps { ranges { start: 1 } }", {1, 2, 3}, {}},
           {"positions { indices: 1 } steps { indices: [0, 2] }", {0, 2}, {}},
           {"token_ids: [3, 2]", {0, 1, 2, 3}, {2, 3}},
           // Not in the prompt.
           {"token_ids: 40", {1, 2, 3}, {40}},
           {"token_ids: 3 steps { indices: 0 }", {0}, {}},
           {"token_ids: 3 steps { indices: 2 }", {2}, {3}}}) {
    const auto plan =
        Plan(Captured(passes.selection, "layers.1.attention_queries"));
    ASSERT_THAT(plan, IsOk()) << passes.selection;
    const PlannedCapture& capture = (*plan)->captures.front();
    EXPECT_EQ(capture.steps, passes.steps) << passes.selection;
    EXPECT_EQ(capture.step_token_ids, passes.token_ids) << passes.selection;
    ASSERT_EQ((*plan)->tensors.size(), passes.steps.size());
    for (size_t i = 0; i < passes.steps.size(); ++i) {
      EXPECT_EQ((*plan)->tensors[i].step, passes.steps[i]);
    }
  }
}

TEST(PlanCaptures, TakesQueriesForPositions) {
  const auto plan = Plan(
      Captured("queries { indices: 1 }", "layers.1.attention_probabilities"));
  ASSERT_THAT(plan, IsOk());
  EXPECT_THAT((*plan)->captures.front().steps, ElementsAre(0));
}

TEST(PlanCaptures, HasOnePositionInAPassOfAGeneratedToken) {
  const auto plan = Plan(Generating(
      "captures { hook_points: 'layers.1.attention_queries' selection { heads "
      "{ indices: [2, 3] } } }"
      "captures { hook_points: 'layers.1.attention_probabilities' }"
      "captures { label: 'k' hook_points: 'layers.1.attention_scores' "
      "selection { keys { indices: [0, 1] } } }"
      "captures { label: 'n' hook_points: 'layers.0.layer_mid' reduction { "
      "mean_over_positions {} } }"
      "captures { hook_points: 'next_token_probs' }"));
  ASSERT_THAT(plan, IsOk());
  std::vector<std::vector<int64_t>> shapes;
  for (const PlannedTensor& tensor : (*plan)->tensors) {
    if (tensor.step == 0 || tensor.step == 3) shapes.push_back(tensor.shape);
  }
  EXPECT_THAT(shapes, ElementsAre(ElementsAre(2, 5, 8), ElementsAre(2, 1, 8),
                                  ElementsAre(6, 5, 5), ElementsAre(6, 1, 8),
                                  ElementsAre(6, 5, 2), ElementsAre(6, 1, 2),
                                  ElementsAre(24), ElementsAre(24),
                                  ElementsAre(50), ElementsAre(50)));
}

TEST(PlanCaptures, ComesAfterOnePassAnotherWithItsParts) {
  const auto plan = Plan(Generating(
      "captures { hook_points: 'layers.{0,1}.layer_mid' reduction { top_k { k: "
      "2 } } selection { steps { indices: [0, 2] } } }"));
  ASSERT_THAT(plan, IsOk());
  ASSERT_EQ((*plan)->tensors.size(), 8u);
  EXPECT_EQ((*plan)->captures[1].first_tensor, 4);
  const PlannedTensor& tensor = (*plan)->tensors[7];
  EXPECT_EQ(tensor.label, "layers.1.layer_mid");
  EXPECT_EQ(tensor.step, 2);
  EXPECT_EQ(tensor.part, "indices");
  EXPECT_EQ(DescribeTensor(**plan, 7).step(), 2);
}

TEST(PlanCaptures, RefusesStepsThatNeverCome) {
  for (const auto& [selection, message] :
       std::vector<std::pair<std::string, std::string>>{
           {"steps { indices: 4 }",
            "steps.indices[0]: 4 is outside the 4 passes of run \"r\" (its "
            "last "
            "token is never read); valid: -4 to 3"},
           {"steps {}", "steps: is set but selects nothing"},
           {"positions { indices: 1 } steps { indices: 1 }",
            "steps: leaves the prompt out, whose positions are selected"},
           {"token_ids: 40 steps { indices: 0 }",
            "token_ids: run \"r\" has none of these tokens"}}) {
    EXPECT_THAT(
        Plan(Captured(selection)),
        StatusIs(kInvalid, StartsWith("captures[0].selection." + message)));
  }
}

TEST(PlanCaptures, CountsTheTensorsOfEveryStep) {
  PlanContext context = TinyContext();
  context.limits.max_tensors = 4;
  EXPECT_THAT(Plan(Captured(""), context), IsOk());
  context.limits.max_tensors = 3;
  EXPECT_THAT(Plan(Captured(""), context),
              StatusIs(kInvalid, StartsWith("captures[0]: brings the answer to "
                                            "4 tensors")));
}

TEST(PlanCaptures, ReadsBeforeTheEditsIfAsked) {
  const auto plan = Plan(absl::StrCat(
      kFiveTokens,
      "captures { label: 'b' hook_points: 'layers.1.layer_mid' read_time: "
      "READ_TIME_BEFORE } captures { hook_points: 'layers.1.layer_mid' "
      "read_time: READ_TIME_AFTER }"));
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ((*plan)->captures[0].time, ReadTime::kBefore);
  EXPECT_EQ((*plan)->captures[1].time, ReadTime::kAfter);
}

TEST(PlanInterventions, EditsEveryStepUnlessPositionsAreSelected) {
  const std::string change = "add { value { number: 1 } }";
  for (const Passes& passes :
       std::vector<Passes>{{"", {0, -1}, {}},
                           {"positions { indices: 4 }", {0}, {}},
                           {"steps { indices: [2, 3] }", {2, 3}, {}},
                           {"steps { ranges {} }", {0, -1}, {}},
                           {"token_ids: 40", {-1}, {40}}}) {
    const auto plan = Plan(EditedWith(passes.selection, change));
    ASSERT_THAT(plan, IsOk()) << passes.selection;
    const StepSelection& steps = (*plan)->writes.front().steps;
    std::vector<int> found;
    if (steps.prompt) found.push_back(0);
    if (steps.every_step) found.push_back(-1);
    found.insert(found.end(), steps.steps.begin(), steps.steps.end());
    EXPECT_EQ(found, passes.steps) << passes.selection;
    EXPECT_EQ(steps.token_ids, passes.token_ids);
    EXPECT_FALSE(passes.token_ids == std::vector<int32_t>{40} &&
                 (*plan)->writes.front().selection.positions.has_value());
  }
}

TEST(PlanInterventions, NeedsValuesThatFitEveryPass) {
  const std::string two =
      "program { nodes { name: 'two' read { run: 'r' hook_point: "
      "'layers.0.layer_mid' selection { positions { indices: [0, 1] } } } } "
      "nodes { name: 'one' read { run: 'r' hook_point: 'layers.0.layer_mid' "
      "selection { positions { indices: 0 } } } } "
      "nodes { name: 'pattern' read { run: 'r' hook_point: "
      "'layers.0.attention_scores' selection { queries { indices: 0 } } } } }";
  EXPECT_THAT(Plan(EditedWith("", "set { value { node: 'one' } }") + two),
              IsOk());
  EXPECT_THAT(
      Plan(EditedWith("",
                      "set { value { run { hook_point: "
                      "'layers.0.layer_mid' } } }")),
      StatusIs(kInvalid,
               StartsWith("runs[0].interventions[0].set.value: a value of [5, "
                          "24] has no one position for the generated tokens")));
  EXPECT_THAT(Plan(EditedWith("positions { indices: [3, 4] }",
                              "set { value { node: 'two' } }") +
                   two),
              IsOk());
  // The keys of a generated token are more than the prompt's.
  const std::string set = "set { value { node: 'pattern' } }";
  EXPECT_THAT(Plan(EditedWith("", set, "layers.1.attention_scores") + two),
              StatusIs(kInvalid, HasSubstr("has no one position")));
  EXPECT_THAT(Plan(EditedWith("steps { indices: 0 }", set,
                              "layers.1.attention_scores") +
                   two),
              IsOk());
}

TEST(PlanInterventions, SkipsALayerOfGeneratedTokensByLeavingItsPartsOut) {
  const auto every = Plan(EditedWith("", "skip {}", "layers.1.layer_output"));
  ASSERT_THAT(every, IsOk());
  ASSERT_EQ((*every)->writes.size(), 2u);
  EXPECT_EQ((*every)->writes[0].point, (HookPoint{Hook::kAttentionOutput, 1}));
  EXPECT_EQ((*every)->writes[1].point, (HookPoint{Hook::kMlpOutput, 1}));
  EXPECT_EQ(Expression(**every, (*every)->writes[1].value), "0");
  const auto prompt = Plan(EditedWith("positions { indices: 2 }", "skip {}",
                                      "layers.1.layer_output"));
  ASSERT_THAT(prompt, IsOk());
  ASSERT_EQ((*prompt)->writes.size(), 1u);
  EXPECT_EQ(Expression(**prompt, (*prompt)->writes[0].value),
            "r:layers.1.layer_input positions=2");
}

TEST(PlanInterventions, RefusesDictionariesThatReadOtherValuesInEveryPass) {
  const std::string transcoder =
      "dictionary { dictionary { name: 'sae' } edits { feature: 1 set: 0 } "
      "encode_hook: 'mlp_input' }";
  EXPECT_THAT(
      Plan(EditedWith("", transcoder, "layers.1.mlp_output"), KeepingContext()),
      StatusIs(kInvalid,
               StartsWith("runs[0].interventions[0].dictionary.encode_"
                          "hook: is read in the prompt's pass")));
  EXPECT_THAT(Plan(EditedWith("steps { indices: 0 }", transcoder,
                              "layers.1.mlp_output"),
                   KeepingContext()),
              IsOk());
}

}  // namespace
}  // namespace phitap
