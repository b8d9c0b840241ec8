#include <gmock/gmock.h>

#include "tests/support/status_matchers.h"
#include "tests/unit/plan/sweeps.h"

namespace phitap {
namespace {

using ::testing::StartsWith;

Refusal Sweep(const std::string& sweep, const std::string& message,
              absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
  return {Swept(sweep), absl::StrCat("sweeps[0]", message), code};
}
std::string Axes(const std::string& axes) {
  return absl::StrCat(kPatch, kMetric, axes);
}
std::string At(const std::string& hook_points, const std::string& axes,
               const std::string& rest = "") {
  return absl::StrCat("interventions { hook_points: '", hook_points, "' ", rest,
                      " set { value { number: 0 } } }", kMetric, axes);
}

const Refusal kRefusals[] = {
    Sweep(absl::StrCat(kMetric, "axes { layers {} }"),
          ".interventions: none given; valid: at least one intervention"),
    Sweep(Axes(""), ".axes: none given; valid: at least one axis"),
    Sweep(Axes("axes {}"),
          ".axes[0]: says nothing; valid: layers, positions, "),
    Sweep(absl::StrCat(kPatch, "axes { layers {} }"),
          ".metrics: none given; valid: at least one metric"),
    Sweep(absl::StrCat(kPatch, kMetric, kMetric, "axes { layers {} }"),
          ".metrics[1].label: \"m\" is the label of another metric"),
    Sweep(absl::StrCat(kPatch,
                       "metrics { run: 'clean' logit { token_id: 1 } } "
                       "axes { layers {} }"),
          ".metrics[0].run: is \"clean\"; valid: empty in a sweep"),
    Sweep(absl::StrCat(kPatch, "metrics { node: 'n' } axes { layers {} }"),
          ".metrics[0].node: a node has no value of each cell"),
    Sweep(absl::StrCat(kPatch,
                       "metrics { logit { token_id: 50 } } axes { "
                       "layers {} }"),
          ".metrics[0].logit.token_id: "),
    Sweep(Axes("axes { layers {} } axes { layers {} }"),
          ".axes[1]: is of the same kind as one before it"),
    Sweep(Axes("axes { layers { window: -1 } }"),
          ".axes[0].layers.window: -1 layers; valid: 1 or more"),
    Sweep(At("logits", "axes { layers {} }"),
          ".interventions[0].hook_points: \"logits\" has nothing for the "
          "sweep's layers axis"),
    Sweep(absl::StrCat("interventions { hook_points: 'layers.0.layer_mid' set "
                       "{ value { number: 0 } } }",
                       At("layers.1.layer_mid", "axes { layers {} }")),
          ".interventions[1].hook_points: names other layers than the sweep's "
          "first intervention; valid: layers 0"),
    Sweep(At("layers.0.layer_mid", "axes { positions {} }",
             "selection { positions { indices: 1 } }"),
          ".interventions[0].selection.positions: says what the sweep's "
          "positions axis says; valid: unset beside a positions axis"),
    Sweep(At("layers.0.layer_mid", "axes { positions {} }",
             "selection { token_ids: 21 }"),
          ".interventions[0].selection.token_ids: says what"),
    Sweep(At("layers.0.attention_scores", "axes { positions {} }",
             "selection { queries { indices: 1 } }"),
          ".interventions[0].selection.queries: says what"),
    Sweep(Axes("axes { positions { positions { indices: 5 } } }"),
          ".axes[0].positions.positions.indices[0]: 5 is outside the 5 tokens "
          "of run \"corrupt\""),
    Sweep(Axes("axes { heads {} }"),
          ".interventions[0].hook_points: \"layers.*.layer_output\" has "
          "nothing for the sweep's heads axis; valid: hook points with heads"),
    Sweep(At("layers.0.attention_premix", "axes { heads {} }",
             "selection { heads { indices: 1 } }"),
          ".interventions[0].selection.heads: says what the sweep's heads"),
    Sweep(absl::StrCat("interventions { hook_points: 'layers.0.attention_keys'"
                       " set { value { number: 0 } } }",
                       At("layers.0.attention_queries", "axes { heads {} }")),
          ".interventions[1].hook_points: has 6 heads; valid: hook points of 2 "
          "heads"),
    Sweep(At("layers.0.attention_keys",
             "axes { heads { heads { indices: 2 } } }"),
          ".axes[0].heads.heads.indices[0]: 2 is outside the 2 heads"),
    Sweep(Axes("axes { scales {} }"), ".axes[0].scales.scales: none given"),
    Sweep(Axes("axes { scales { scales: [1, nan] } }"),
          ".axes[0].scales.scales[1]: nan is no float32 number"),
    Sweep(Axes("axes { scales { scales: 1 } }"),
          ".axes[0].scales: none of the sweep's interventions has a scale"),
    Sweep(absl::StrCat("interventions { hook_points: 'layers.0.layer_mid' "
                       "scale { value { constant: 'v' } } }",
                       kMetric, "axes { scales { scales: 1 } }"),
          ".interventions[0].scale.value: is no number for the sweep's scales "
          "axis to replace"),
    Sweep(At("layers.9.layer_mid", "axes { positions {} }"),
          ".interventions[0].hook_points: "),
    Sweep(At("input_ids", "axes { positions {} }"),
          ".interventions[0].hook_points: input_ids can be read alone"),
    // What only a cell can tell is told of the sweep's own field.
    Sweep(absl::StrCat("interventions { hook_points: 'layers.0.layer_mid' set "
                       "{ value { run { run: 'claen' } } } }",
                       kMetric, "axes { positions {} }"),
          ".interventions[0].set.value.run.run: no run is labelled \"claen\""),
};

TEST(ExpandSweeps, RefusesGridsThatCannotBeMade) {
  for (const Refusal& refusal : kRefusals) {
    const auto plan = Plan(refusal.request);
    EXPECT_THAT(plan, StatusIs(refusal.code, StartsWith(refusal.message)))
        << plan.status();
    EXPECT_THAT(std::string(plan.status().message()),
                StartsWith(FieldOf(plan.status()) + ": "));
  }
}

TEST(ExpandSweeps, RefusesARunThatIsNotThere) {
  EXPECT_THAT(
      Plan(absl::StrCat(kRuns, "sweeps { run: 'corupt' ", kPatch, kMetric,
                        "axes { layers {} } }")),
      StatusIs(absl::StatusCode::kInvalidArgument,
               StartsWith("sweeps[0].run: no run is labelled \"corupt\"")));
}

TEST(ExpandSweeps, RefusesLabelsThatAreTakenAlready) {
  EXPECT_THAT(
      Plan(absl::StrCat(
          "runs { label: 's[0]' prompt { text: 'abc' } } sweeps { label: 's' "
          "run: 's[0]' ",
          kMetric,
          "interventions { hook_points: 'layers.*.layer_mid' set { value { "
          "number: 0 } } } axes { layers {} } }")),
      StatusIs(absl::StatusCode::kInvalidArgument,
               StartsWith("sweeps[0].label: its cell \"s[0]\" has the label "
                          "of one of the request's runs")));
  EXPECT_THAT(Plan(absl::StrCat(
                  Swept(absl::StrCat(kPatch, kMetric, "axes { layers {} }")),
                  "captures { label: 'sweep0' hook_points: 'logits' }")),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       StartsWith("sweeps[0].label: \"sweep0\" is the label of "
                                  "captures[0] as well")));
}

}  // namespace
}  // namespace phitap
