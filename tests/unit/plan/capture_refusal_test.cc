#include <gmock/gmock.h>

#include "tests/support/status_matchers.h"
#include "tests/unit/plan/planning.h"

namespace phitap {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

Refusal Captures(const std::string& captures, const std::string& message) {
  return {.request = absl::StrCat(kFiveTokens, captures), .message = message};
}

// One capture of `hook_points` with more fields.
Refusal Capture(const std::string& hook_points, const std::string& more,
                const std::string& message) {
  return Captures(
      absl::StrCat("captures { hook_points: '", hook_points, "' ", more, " }"),
      message);
}

Refusal Selected(const std::string& hook_points, const std::string& selection,
                 const std::string& message) {
  return Capture(hook_points, absl::StrCat("selection { ", selection, " }"),
                 "captures[0].selection." + message);
}

Refusal Reduced(const std::string& hook_points, const std::string& reduction,
                const std::string& message) {
  return Capture(hook_points, absl::StrCat("reduction { ", reduction, " }"),
                 "captures[0].reduction" + message);
}

const Refusal kRefusals[] = {
    Captures("", "captures: none given; valid: at least one capture"),
    Captures("captures {}",
             "captures[0]: names nothing to send back; valid: hook_points or "
             "node"),
    Capture("layers.4.layer_output", "",
            "captures[0].hook_points: layer 4 is past the last; valid: 0 to 3"),
    Capture("layers.0.layer_ouput", "",
            "captures[0].hook_points: there is no hook point"),
    Capture("logits", "runs: 'x'",
            "captures[0].runs[0]: no run is labelled \"x\"; valid: nearest are "
            "\"0\""),
    Capture("logits", "runs: ['0', '0']",
            "captures[0].runs[1]: run \"0\" is named twice"),
    // Labels
    Captures("captures { label: 'a' hook_points: 'logits' }"
             "captures { label: 'a' hook_points: 'layers.0.layer_mid' }",
             "captures[1].label: \"a\" is the label of captures[0] as well"),
    Captures("captures { hook_points: 'logits' }"
             "captures { hook_points: 'logits' dtype: DATA_TYPE_F32 }",
             "captures[1].hook_points: logits of run \"0\" is read by "
             "captures[0] too; valid: a label for one of them"),
    Captures("captures { hook_points: 'layers.*.layer_output' }"
             "captures { hook_points: 'blocks.2.hook_resid_post' }",
             "captures[1].hook_points: layers.2.layer_output of run"),
    Captures("captures { hook_points: 'logits' }"
             "captures { label: 'logits' hook_points: 'layers.0.layer_mid' }",
             "captures[1].label: \"logits\" is the default label of "
             "captures[0]"),
    // Selections
    Selected("layers.0.attention_scores", "positions { indices: 0 }",
             "positions: attention_scores [num_heads, query, key] has no "
             "dimension for it; valid: heads, queries, keys"),
    Selected("layers.0.attention_scores", "token_ids: 1",
             "token_ids: attention_scores [num_heads, query, key] has no "),
    Selected("layers.0.attention_scores", "features { indices: 0 }",
             "features: attention_scores"),
    Selected("layers.0.layer_output", "heads { indices: 0 }",
             "heads: layer_output [seq, hidden_size] has no dimension for it; "
             "valid: positions, token_ids, features"),
    Selected("layers.0.layer_output", "queries { indices: 0 }", "queries: "),
    Selected("layers.0.layer_output", "keys { indices: 0 }", "keys: "),
    Selected("input_ids", "features { indices: 0 }",
             "features: input_ids [seq] has no dimension for it"),
    Selected("input_size", "positions { indices: 0 }",
             "positions: input_size [pair] has no dimension for it; valid: no "
             "selection"),
    Selected("next_token_probs", "positions { indices: 0 }",
             "positions: next_token_probs [vocab_size] has no"),
    Selected("logits", "positions { indices: 0 } token_ids: 1",
             "token_ids: is set beside positions; valid: one of"),
    Selected("logits", "token_ids: 50",
             "token_ids[0]: 50 is not in the vocabulary; valid: 0 to 49"),
    Selected("logits", "token_ids: [1, -1]", "token_ids[1]: -1 is not in"),
    Selected("logits", "token_ids: 9",
             "token_ids: run \"0\" has none of these tokens"),
    Selected("logits", "positions {}", "positions: is set but selects nothing"),
    Selected("logits", "positions { indices: 5 }",
             "positions.indices[0]: 5 is outside the 5 tokens of run \"0\"; "
             "valid: -5 to 4"),
    Selected("logits", "positions { indices: [0, -6] }",
             "positions.indices[1]: -6 is outside"),
    Selected("logits", "positions { indices: [0, -5] }",
             "positions.indices[1]: index 0 is named twice"),
    Selected("logits", "positions { indices: 2 ranges { start: 1 stop: 4 } }",
             "positions.ranges[0]: index 2 is named twice"),
    Selected("logits", "positions { ranges { stop: 6 } }",
             "positions.ranges[0].stop: 6 is outside the 5 tokens of run \"0\";"
             " valid: -5 to 5"),
    Selected("logits", "positions { ranges { start: 5 } }",
             "positions.ranges[0].start: 5 is outside"),
    Selected("logits", "positions { ranges { start: 3 stop: 3 } }",
             "positions.ranges[0]: from 3 to before 3 there is no index"),
    Selected("logits", "positions { ranges { step: 0 } }",
             "positions.ranges[0].step: 0 is no distance; valid: 1 or more"),
    Selected("logits", "positions { ranges { step: -1 } }",
             "positions.ranges[0].step: -1"),
    Selected("layers.0.attention_keys", "heads { indices: 2 }",
             "heads.indices[0]: 2 is outside the 2 num_kv_heads of "
             "attention_keys; valid: -2 to 1"),
    Selected("layers.0.mlp_neurons", "features { indices: 20 }",
             "features.indices[0]: 20 is outside the 20 intermediate_size of "
             "mlp_neurons; valid: -20 to 19"),
    Selected("layers.0.attention_probabilities", "keys { indices: 5 }",
             "keys.indices[0]: 5 is outside the 5 tokens"),
    // Reductions
    Capture("logits", "reduction {}",
            "captures[0].reduction: is set but says nothing"),
    Reduced("input_ids", "mean_over_positions {}",
            ": input_ids holds integers"),
    Reduced("attention_mask", "norm {}", ": attention_mask holds integers"),
    Reduced("layers.0.attention_scores", "mean_over_positions {}",
            ".mean_over_positions: attention_scores has no seq dimension"),
    Reduced("next_token_probs", "mean_over_positions {}",
            ".mean_over_positions: next_token_probs has no seq dimension"),
    Reduced("logits", "top_k {}",
            ".top_k.k: 0 entries of 50 vocab_size; valid:"
            " 1 to 50"),
    Reduced("logits", "top_k { k: 51 }", ".top_k.k: 51 entries of 50"),
    Reduced("logits", "top_k { k: -1 }", ".top_k.k: -1 entries of 50"),
    Reduced("layers.0.attention_scores", "top_k { k: 6 }",
            ".top_k.k: 6 entries of 5 key; valid: 1 to 5"),
    Reduced("logits", "logit_lens { k: 1 }",
            ".logit_lens: cannot read logits; valid: hook points of [seq, "
            "hidden_size]"),
    Reduced("layers.0.attention_premix", "logit_lens { k: 1 }",
            ".logit_lens: cannot read attention_premix"),
    Reduced("layers.0.layer_output", "logit_lens {}",
            ".logit_lens.k: 0 entries of 50 tokens; valid: 1 to 50"),
    Reduced("layers.0.layer_output", "logit_lens { k: 51 }", ".logit_lens.k: "),
    Reduced("layers.0.layer_output", "logit_lens { k: 1 token_ids: [1, 50] }",
            ".logit_lens.token_ids[1]: 50 is not in the vocabulary"),
    Reduced("final_norm_output", "logit_lens { k: 1 }",
            ".logit_lens.apply_final_norm: final_norm_output has been through "
            "the final norm; valid: false"),
    Capture("layers.0.layer_output",
            "selection { features { indices: 0 } } "
            "reduction { logit_lens { k: 1 } }",
            "captures[0].reduction.logit_lens: needs every hidden unit"),
    Capture("logits",
            "selection { features { indices: 0 } } "
            "reduction { top_k { k: 1 } }",
            "captures[0].reduction.top_k: ranks all entries of the last "
            "dimension of logits"),
    Capture("layers.0.attention_scores",
            "selection { keys { indices: 0 } } reduction { top_k { k: 1 } }",
            "captures[0].reduction.top_k: ranks all entries"),
    // Element types
    Capture("logits", "dtype: DATA_TYPE_I32",
            "captures[0].dtype: DATA_TYPE_I32 is no floating-point type; valid:"
            " DATA_TYPE_F32, DATA_TYPE_F16, DATA_TYPE_BF16"),
    Capture("logits", "dtype: DATA_TYPE_BOOL", "captures[0].dtype: "),
    Capture("input_ids", "dtype: DATA_TYPE_F32",
            "captures[0].dtype: DATA_TYPE_F32 for input_ids, which holds "
            "integers; valid: unset"),
    Capture("logits", "reduction { norm {} } dtype: DATA_TYPE_BF16",
            "captures[0].dtype: DATA_TYPE_BF16 for a reduction to float32"),
    Capture("layers.0.layer_mid",
            "reduction { logit_lens { k: 1 } } dtype: DATA_TYPE_F16",
            "captures[0].dtype: DATA_TYPE_F16 for a reduction to float32"),
};

TEST(PlanTrace, RefusesCapturesThatCannotBeAnswered) {
  for (const Refusal& refusal : kRefusals) {
    const auto plan = Plan(refusal.request);
    EXPECT_THAT(plan, StatusIs(refusal.code, StartsWith(refusal.message)))
        << refusal.request << "\n"
        << plan.status();
    // The message starts with the field, which clients also get by itself.
    EXPECT_THAT(std::string(plan.status().message()),
                StartsWith(FieldOf(plan.status()) + ": "))
        << refusal.request;
    EXPECT_FALSE(FieldOf(plan.status()).empty());
  }
}

TEST(PlanTrace, NamesTheRunThatASelectionDoesNotFit) {
  const auto plan = Plan(
      "runs { label: 'long' prompt { text: 'abcdef' } }"
      "runs { label: 'short' prompt { text: 'abc' } }"
      "captures { hook_points: 'logits' selection { positions { indices: 3 } } "
      "}");
  EXPECT_THAT(plan, StatusIs(absl::StatusCode::kInvalidArgument,
                             HasSubstr("3 is outside the 3 tokens of run "
                                       "\"short\"; valid: -3 to 2")));
}

}  // namespace
}  // namespace phitap
