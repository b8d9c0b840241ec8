#include <gmock/gmock.h>

#include "tests/support/status_matchers.h"
#include "tests/unit/plan/edits.h"

namespace phitap {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kField[] = "runs[1].interventions[0]";

// A change at layers.2.layer_output, whose refusal starts with the field.
Refusal Change(const std::string& change, const std::string& message,
               absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
  return {EditedAt("layers.2.layer_output", change),
          absl::StrCat(kField, message), code};
}

Refusal At(const std::string& hook_points, const std::string& change,
           const std::string& message) {
  return {EditedAt(hook_points, change), absl::StrCat(kField, message)};
}

const Refusal kRefusals[] = {
    Change("", ": changes nothing; valid: one of set, add"),
    At("layers.2.layer_outptu", "set { value { number: 0 } }",
       ".hook_points: "),
    At("layers.4.layer_output", "set { value { number: 0 } }",
       ".hook_points: "),
    At("input_ids", "set { value { number: 0 } }",
       ".hook_points: input_ids can be read alone; valid: any hook point but "
       "input_ids, attention_mask, input_size, rotary_cos, rotary_sin, "
       "next_token_probs"),
    At("next_token_probs", "set { value { number: 0 } }",
       ".hook_points: next_token_probs can be read alone"),
    Change("set {}", ".set.value: says nothing; valid: one of tensor"),
    Change("set { value {} }", ".set.value: says nothing"),
    Change("set { value { number: nan } }", ".set.value.number: nan is no"),
    Change("set { value { number: 1e39 } }", ".set.value.number: 1e+39 is no"),
    Change("set { value { constant: 'w' } }", ".set.value.constant: "),
    Change("set { value { node: 'w' } }", ".set.value.node: "),
    Change("set { value { tensor_name: 'w' } }",
           ".set.value.tensor_name: ", absl::StatusCode::kNotFound),
    Change("set { value { tensor_name: 'mask' } }",
           ".set.value: a value of [3] does not broadcast to the part of "
           "layers.2.layer_output that is edited; valid: what broadcasts to "
           "[5, 24]"),
    Change("set { value { tensor { dtype: DATA_TYPE_F32 shape: 2 data: 'abcd' "
           "} } }",
           ".set.value.tensor"),
    Change("set { value { run { run: 'claen' } } }", ".set.value.run.run: "),
    Change("set { value { run { run: 'clean' hook_point: 'layers.*.layer_mid' "
           "} } }",
           ".set.value.run.hook_point: "),
    Change("selection { positions { indices: [5] } } set { value { number: 0 } "
           "}",
           ".selection.positions.indices[0]: 5 is outside"),
    Change("selection { token_ids: [3] } set { value { number: 0 } }",
           ".selection.token_ids: run \"edited\" has none of these tokens"),
    Change("selection { heads { indices: 0 } } set { value { number: 0 } }",
           ".selection.heads: layer_output [seq, hidden_size] has no"),
    Change("selection { steps { indices: [1] } } set { value { number: 0 } }",
           ".selection.steps.indices[0]: 1 is outside the 1 pass of run "
           "\"edited\", which does not generate"),
    Change("add {}", ".add.value: says nothing"),
    Change("add { value { number: 1 } scale: inf }", ".add.scale: inf is no"),
    Change("scale {}", ".scale.value: says nothing"),
    Change("project_out {}", ".project_out.direction: says nothing"),
    Change("project_out { direction { constant: 'zero' } }",
           ".project_out.direction: a vector of length 0 has no direction"),
    Change("project_out { direction { tensor_name: 'mask' } }",
           ".project_out.direction: a value of [3] is no direction here; "
           "valid: a vector of 24 elements"),
    Change("project_out { direction { number: 3 } }",
           ".project_out.direction: a value of [] is no direction"),
    Change("project_out { direction { constant: 'v' } keep: nan }",
           ".project_out.keep: nan is no"),
    Change("clamp_projection { direction { constant: 'v' } }",
           ".clamp_projection: has no bound; valid: low, high or both"),
    Change("clamp_projection { direction { constant: 'v' } low: 2 high: 1 }",
           ".clamp_projection.low: 2 is above high, 1; valid: at most high"),
    Change("swap { from { constant: 'v' } }", ".swap.to: says nothing"),
    Change("swap { from { constant: 'zero' } to { constant: 'v' } }",
           ".swap.from: a vector of length 0"),
    Change("clamp {}", ".clamp: has no bound"),
    Change("clamp { low: 3 high: 2 }", ".clamp.low: 3 is above high, 2"),
    Change("clamp { low: -inf }", ".clamp.low: -inf is no float32 number"),
    Change("noise {}", ".noise.scale: is not set; valid: a standard"),
    Change("noise { scale: -1 }", ".noise.scale: -1 is below 0"),
    Change("noise { scale: nan }", ".noise.scale: nan is no"),
    Change("knockout {}",
           ".knockout: cuts no attention at layer_output; valid: hook points "
           "of attention_scores"),
    At("layers.2.attention_probabilities", "knockout {}",
       ".knockout: cuts no attention at attention_probabilities"),
    At("layers.2.layer_mid", "skip {}",
       ".skip: skips no module at layer_mid; valid: layer_output, "
       "attention_output, mlp_output"),
    At("layers.2.attention_scores",
       "project_out { direction { constant: 'v' } }",
       ".hook_points: attention_scores is edited element by element; valid: "
       "set, add, scale, clamp, noise or knockout there"),
    Change("subspace { basis { constant: 'v' } source { number: 0 } }",
           ".subspace.basis: a value of [24] is no basis here; valid: [24, k] "
           "with k at most 24"),
    Change("subspace { basis { tensor_name: 'basis' } }",
           ".subspace.source: says nothing"),
    Change("subspace { basis { tensor_name: 'basis' } source { number: 0 } "
           "mask { constant: 'v' } }",
           ".subspace.mask: a value of [24] is no mask here; valid: [3]"),
    Change("set { value { mean_of_runs {} } }",
           ".set.value.mean_of_runs.runs: none given"),
    Change("set { value { mean_of_runs { runs: ['clean', 'clean'] } } }",
           ".set.value.mean_of_runs.runs[1]: run \"clean\" is named twice"),
    At("layers.2.attention_scores",
       "set { value { mean_of_runs { runs: 'clean' over_positions: true } } }",
       ".set.value.mean_of_runs.over_positions: attention_scores has no seq"),
    Change("when: 'nothing' set { value { number: 0 } }", ".when: "),
    Change("dictionary { dictionary { name: 'sae' } }",
           ".dictionary.edits: none given; valid: at least one edit, or"),
    Change("dictionary { edits { feature: 0 set: 1 } }",
           ".dictionary.dictionary.name: is empty"),
    Change("dictionary { dictionary { name: 'none' } edits { feature: 0 set: 1 "
           "} }",
           ".dictionary.dictionary.name: ", absl::StatusCode::kNotFound),
    Change("dictionary { dictionary { name: 'sae' } edits { set: 1 } }",
           ".dictionary.edits[0].feature: is not set; valid: 0 to 9"),
    Change("dictionary { dictionary { name: 'sae' } edits { feature: 10 set: 1 "
           "} }",
           ".dictionary.edits[0].feature: feature 10 is none of them"),
    Change("dictionary { dictionary { name: 'sae' } edits { feature: 1 } }",
           ".dictionary.edits[0]: changes nothing"),
    Change(
        "dictionary { dictionary { name: 'sae' } edits { feature: 1 set: nan "
        "} }",
        ".dictionary.edits[0].set: nan is no float32 number"),
    Change("dictionary { dictionary { name: 'sae' } edits { feature: 1 "
           "from_run: 'claen' } }",
           ".dictionary.edits[0].from_run: no run is labelled"),
    Change("dictionary { dictionary { name: 'sae' k: 2 } edits { feature: 1 "
           "set: 0 } }",
           ".dictionary.dictionary.k: 2 without activation TOP_K"),
    Change("dictionary { dictionary { name: 'sae' activation: "
           "DICTIONARY_ACTIVATION_JUMP_RELU } edits { feature: 1 set: 0 } }",
           ".dictionary.dictionary.activation: JUMP_RELU without a tensor"),
    Change("dictionary { dictionary { name: 'narrow' } edits { feature: 1 set: "
           "0 } }",
           ".dictionary.dictionary.name: decodes to 20 elements; valid: 24"),
    Change("dictionary { dictionary { name: 'torn' } edits { feature: 1 set: 0 "
           "} }",
           ".dictionary.dictionary.name: tensor \"torn.decoder_weight\" is [9, "
           "24]; valid: 2 dimensions, the first of 10"),
    Change("dictionary { dictionary { name: 'sae' } edits { feature: 1 set: 0 "
           "} encode_hook: 'layer_output' }",
           ".dictionary.encode_hook: \"layer_output\" does not come before"),
    Change("dictionary { dictionary { name: 'sae' } edits { feature: 1 set: 0 "
           "} encode_hook: 'attention_queries' }",
           ".dictionary.encode_hook: attention_queries is not [seq, ...]"),
    Change("dictionary { dictionary { name: 'sae' } edits { feature: 1 set: 0 "
           "} encode_hook: 'mlp_neurons' }",
           ".dictionary.dictionary: "),
    At("final_norm_output",
       "dictionary { dictionary { name: 'sae' } edits { feature: 1 set: 0 } "
       "encode_hook: 'mlp_input' }",
       ".dictionary.encode_hook: the edited hook point is of no layer"),
};

TEST(PlanInterventions, RefusesEditsThatCannotBeMade) {
  for (const Refusal& refusal : kRefusals) {
    const auto plan = Plan(refusal.request, KeepingContext());
    EXPECT_THAT(plan, StatusIs(refusal.code, StartsWith(refusal.message)))
        << plan.status();
    EXPECT_THAT(std::string(plan.status().message()),
                StartsWith(FieldOf(plan.status()) + ": "));
    EXPECT_FALSE(FieldOf(plan.status()).empty());
  }
}

TEST(PlanInterventions, TakesParts) {
  // Every refusal above is of a request that differs in one thing from these.
  for (const std::string change :
       {"set { value { number: 0 } }",
        "selection { positions { indices: [4] } } add { value { constant: 'v' "
        "} scale: 0 }",
        "clamp { low: 2 high: 2 }",
        "dictionary { dictionary { name: 'sae' } edits { feature: 9 from_run: "
        "'clean' } }"}) {
    EXPECT_THAT(
        Plan(EditedAt("layers.2.layer_output", change), KeepingContext()),
        IsOk())
        << change;
  }
}

TEST(PlanInterventions, HoldsTheLimitOnEdits) {
  PlanContext context = TinyContext();
  const std::string request =
      EditedAt("layers.*.layer_output", "set { value { number: 0 } }");
  context.limits.max_interventions = 4;
  EXPECT_THAT(Plan(request, context), IsOk());
  context.limits.max_interventions = 3;
  EXPECT_THAT(Plan(request, context),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("brings the request to 4 edits")));
}

TEST(PlanInterventions, HoldsTheLimitOnSelectedIndices) {
  PlanContext context = TinyContext();
  const std::string request = EditedAt(
      "layers.*.layer_output",
      "selection { positions { indices: [0, 2] } } set { value { number: 0 } "
      "}");
  context.limits.max_selected_indices = 8;
  EXPECT_THAT(Plan(request, context), IsOk());
  context.limits.max_selected_indices = 7;
  EXPECT_THAT(Plan(request, context),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("edits to 8 selected indices")));
}

}  // namespace
}  // namespace phitap
