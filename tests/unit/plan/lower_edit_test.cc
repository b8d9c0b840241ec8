#include "server/plan/edits/lower_edit.h"

#include <gmock/gmock.h>

#include <utility>
#include <vector>

#include "absl/strings/str_replace.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/plan/edits.h"
#include "tests/unit/plan/expression.h"

namespace phitap {
namespace {

using ::testing::ElementsAre;

struct Lowered {
  std::string hook_points;
  std::string change;
  std::string expression;
};

void ExpectLowered(const Lowered& lowered) {
  const auto plan =
      Plan(EditedAt(lowered.hook_points, lowered.change), KeepingContext());
  ASSERT_THAT(plan, IsOk()) << lowered.change;
  ASSERT_EQ((*plan)->writes.size(), 1u) << lowered.change;
  const PlannedWrite& write = (*plan)->writes.front();
  EXPECT_EQ(write.run, 1);
  EXPECT_EQ(write.field, "runs[1].interventions[0]");
  EXPECT_EQ(Expression(**plan, write.value), lowered.expression)
      << lowered.change;
}

TEST(LowerEdit, ComputesWhatEachSimpleEditSays) {
  const std::string output = "layers.2.layer_output";
  for (const Lowered& lowered : std::vector<Lowered>{
           {output, "set { value { number: 0 } }", "0"},
           {output, "set { value { constant: 'v' } }", "const[24]"},
           {output, "add { value { constant: 'v' } }", "add(x, const[24])"},
           {output, "add { value { constant: 'v' } scale: 1 }",
            "add(x, const[24])"},
           {output, "add { value { constant: 'v' } scale: -2.5 }",
            "add(x, multiply(const[24], -2.5))"},
           {output, "scale { value { number: 3 } }", "multiply(x, 3)"},
           {output, "clamp { low: -1 high: 2 }", "clamp<-1:2>(x)"},
           {output, "clamp { high: 2 }", "clamp<:2>(x)"},
           {output, "noise { scale: 1 seed: 9 }", "add(x, noise<9>)"},
           {output, "noise { scale: 0.5 seed: 9 }",
            "add(x, multiply(noise<9>, 0.5))"},
           {"layers.2.attention_scores", "knockout {}", "-inf"},
           {"layers.2.attention_output", "skip {}", "0"},
           {"layers.2.mlp_output", "skip {}", "0"},
           {output, "skip {}", "edited:layers.2.layer_input"}}) {
    ExpectLowered(lowered);
  }
}

TEST(LowerEdit, ComputesProjectionsAlongUnitVectors) {
  // U stands for the unit vector.
  for (const auto& [change, expression] :
       std::vector<std::pair<std::string, std::string>>{
           {"project_out { direction { constant: 'v' } }",
            "subtract(x, multiply(dot(x, U), U))"},
           {"project_out { direction { constant: 'v' } keep: 0.25 }",
            "subtract(x, multiply(multiply(0.75, dot(x, U)), U))"},
           {"clamp_projection { direction { constant: 'v' } low: 1 high: 1 }",
            "add(x, multiply(subtract(clamp<1:1>(dot(x, U)), dot(x, U)), U))"},
           {"swap { from { constant: 'v' } to { constant: 'v' } both: true }",
            "add(subtract(add(subtract(x, multiply(dot(x, U), U)), "
            "multiply(dot(x, U), U)), multiply(dot(x, U), U)), "
            "multiply(dot(x, U), U))"},
           {"swap { from { constant: 'v' } to { constant: 'v' } }",
            "add(subtract(x, multiply(dot(x, U), U)), multiply(dot(x, U), "
            "U))"}}) {
    ExpectLowered(
        {"layers.2.layer_output", change,
         absl::StrReplaceAll(
             expression, {{"U", "divide(const[24], norm0keep(const[24]))"}})});
  }
}

TEST(LowerEdit, ComputesInASubspace) {
  ExpectLowered(
      {"layers.1.layer_mid",
       "subspace { basis { tensor_name: 'basis' } source { run { run: 'clean' "
       "} } }",
       "add(x, linear_out_in(linear_in_out(subtract("
       "clean:layers.1.layer_mid, x), const[24, 3]), const[24, 3]))"});
  ExpectLowered(
      {"layers.1.layer_mid",
       "subspace { basis { tensor_name: 'basis' } source { number: 0 } mask { "
       "tensor_name: 'mask' } }",
       "add(x, linear_out_in(multiply(linear_in_out(subtract(0, x), const[24, "
       "3]), const[3]), const[24, 3]))"});
}

TEST(LowerEdit, EncodesTheEditedFeaturesAlone) {
  const std::string output = "layers.1.layer_output";
  for (const Lowered& lowered : std::vector<Lowered>{
           {output,
            "dictionary { dictionary { name: 'sae' } edits { feature: 4 scale: "
            "2 } }",
            "add(x, linear_in_out(subtract(multiply(relu(linear_out_in(x, "
            "const[1, 24], const[1])), 2), relu(linear_out_in(x, const[1, 24], "
            "const[1]))), const[1, 24]))"},
           {output,
            "dictionary { dictionary { name: 'jump' } edits { feature: 4 set: "
            "7 } }",
            "add(x, linear_in_out(subtract(clamp<7:7>(jump_relu(linear_out_in("
            "x, const[1, 24]), const[1])), jump_relu(linear_out_in(x, const[1, "
            "24]), const[1])), const[1, 24]))"},
           {output,
            "dictionary { dictionary { name: 'jump' activation: "
            "DICTIONARY_ACTIVATION_TOP_K k: 3 } edits { feature: 4 add: 1 } }",
            "add(x, linear_in_out(subtract(add(gather1<4>(top3(linear_out_in("
            "x, const[10, 24]))), 1), gather1<4>(top3(linear_out_in(x, "
            "const[10, 24])))), const[1, 24]))"},
           {output,
            "dictionary { dictionary { name: 'sae' } drop_error: true }",
            "linear_in_out(relu(linear_out_in(x, const[10, 24], const[10])), "
            "const[10, 24], const[24])"},
           {"layers.1.mlp_output",
            "dictionary { dictionary { name: 'sae' } drop_error: true edits { "
            "feature: 2 set: 0 } encode_hook: 'mlp_input' }",
            "linear_in_out(scatter1<2>(relu(linear_out_in("
            "edited:layers.1.mlp_input, const[10, 24], const[10])), "
            "clamp<0:0>(gather1<2>(relu(linear_out_in("
            "edited:layers.1.mlp_input, const[10, 24], const[10]))))), "
            "const[10, 24], const[24])"}}) {
    ExpectLowered(lowered);
  }
}

TEST(LowerEdit, EditsFeaturesInOrderAndTakesThemFromARun) {
  ExpectLowered(
      {"layers.1.layer_output",
       "dictionary { dictionary { name: 'jump' activation: "
       "DICTIONARY_ACTIVATION_RELU } edits { feature: 8 from_run: 'clean' } "
       "edits { feature: 8 scale: 3 } edits { feature: 0 add: 1 } }",
       "add(x, linear_in_out(subtract(concatenate1(multiply(gather1<0>(relu("
       "linear_out_in(clean:layers.1.layer_output, const[2, 24]))), 3), "
       "add(gather1<1>(relu(linear_out_in(x, const[2, 24]))), 1)), "
       "relu(linear_out_in(x, const[2, 24]))), const[2, 24]))"});
}

TEST(LowerEdit, TakesValuesOfRunsFromThePartThatIsEdited) {
  const std::string selected = "selection { positions { indices: [3, 1] } } ";
  for (const Lowered& lowered : std::vector<Lowered>{
           {"layers.2.layer_output",
            selected + "set { value { run { run: 'clean' } } }",
            "clean:layers.2.layer_output positions=3,1"},
           {"layers.2.layer_output",
            selected + "set { value { run { run: 'clean' selection { positions "
                       "{ indices: [0] } } } } }",
            "clean:layers.2.layer_output positions=0"},
           {"layers.2.layer_output",
            selected +
                "set { value { run { hook_point: 'layers.1.layer_mid' } } }",
            "edited:layers.1.layer_mid positions=3,1"},
           {"layers.2.layer_output",
            "set { value { run { run: 'clean' read_time: READ_TIME_BEFORE } } "
            "}",
            "clean:layers.2.layer_output before"}}) {
    ExpectLowered(lowered);
  }
}

TEST(LowerEdit, TakesMeansOverRuns) {
  const std::string output = "layers.2.layer_output";
  for (const Lowered& lowered : std::vector<Lowered>{
           {output,
            "set { value { mean_of_runs { runs: ['clean', 'edited'] hook_point:"
            " 'layers.1.layer_mid' } } }",
            "mean0(concatenate0(reshape[1, 5, 24](clean:layers.1.layer_mid), "
            "reshape[1, 5, 24](edited:layers.1.layer_mid)))"},
           {output,
            "set { value { mean_of_runs { runs: ['clean', 'edited'] hook_point:"
            " 'layers.1.layer_mid' over_positions: true } } }",
            "mean0keep(concatenate0(clean:layers.1.layer_mid, "
            "edited:layers.1.layer_mid))"},
           {"layers.2.attention_queries",
            "set { value { mean_of_runs { runs: 'clean' over_positions: true } "
            "} }",
            "mean1keep(clean:layers.2.self_attn.attention_queries)"}}) {
    ExpectLowered(lowered);
  }
}

TEST(LowerEdit, MakesWhatSeveralLayersShareOnce) {
  const auto one = Plan(EditedAt("layers.0.layer_output",
                                 "project_out { direction { constant: 'v' } }"),
                        KeepingContext());
  const auto four =
      Plan(EditedAt("layers.*.layer_output",
                    "project_out { direction { constant: 'v' } }"),
           KeepingContext());
  ASSERT_THAT(one, IsOk());
  ASSERT_THAT(four, IsOk());
  EXPECT_EQ((*four)->writes.size(), 4u);
  // Of each layer: the part, its projection, a product, a difference.
  EXPECT_EQ((*four)->nodes.size() - (*one)->nodes.size(), 3u * 4u);
}

TEST(LowerEdit, KeepsTheOrderOfEditsAtOnePlace) {
  const auto plan = Plan(
      Edited("interventions { hook_points: 'layers.1.layer_mid' scale { value "
             "{ number: 2 } } }"
             "interventions { hook_points: 'layers.1.layer_mid' add { value { "
             "number: 1 } } }"));
  ASSERT_THAT(plan, IsOk());
  ASSERT_EQ((*plan)->writes.size(), 2u);
  EXPECT_EQ(Expression(**plan, (*plan)->writes[0].value), "multiply(x, 2)");
  EXPECT_EQ(Expression(**plan, (*plan)->writes[1].value), "add(x, 1)");
}

TEST(LowerEdit, WaitsForAConditionOfOneNumberOrOneAPosition) {
  const auto with_node = [](const std::string& selection) {
    return absl::StrCat(
        EditedAt("layers.2.layer_output",
                 absl::StrCat("selection { positions { indices: [", selection,
                              "] } } when: 'c' set { value { number: 0 } }")),
        "program { nodes { name: 'r' read { run: 'clean' hook_point: "
        "'layers.1.layer_mid' selection { positions { indices: [0, 1] } } } }"
        "nodes { name: 'c' inputs: 'r' reduce { kind: REDUCE_KIND_NORM "
        "dimensions: -1 } } }");
  };
  const auto plan = Plan(with_node("3, 4"));
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(Expression(**plan, (*plan)->writes.front().condition),
            "norm1(clean:layers.1.layer_mid positions=0,1)");
  EXPECT_THAT(
      Plan(with_node("2, 3, 4")),
      StatusIs(absl::StatusCode::kInvalidArgument,
               "runs[1].interventions[0].when: a value of [2] is no condition "
               "here; valid: one number, or one for each of the 3 selected "
               "positions"));
}

TEST(PlanTrace, ComputesEagerlyWhereScoresAreWritten) {
  const auto plan = Plan(EditedAt("layers.2.attention_scores",
                                  "selection { queries { indices: [-1] } keys "
                                  "{ indices: [0] } } knockout {}"));
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ((*plan)->attention, Attention::kEager);
  EXPECT_THAT(*(*plan)->writes.front().selection.queries, ElementsAre(4));
  EXPECT_THAT(*(*plan)->writes.front().selection.keys, ElementsAre(0));
  EXPECT_THAT(
      Plan(absl::StrCat(EditedAt("layers.2.attention_probabilities",
                                 "set { value { number: 0 } }"),
                        "options { attention: ATTENTION_SDPA }")),
      StatusIs(absl::StatusCode::kInvalidArgument,
               "options.attention: ATTENTION_SDPA makes no "
               "attention_probabilities, which runs[1].interventions[0] edits; "
               "valid: ATTENTION_EAGER or unset"));
}

}  // namespace
}  // namespace phitap
