#include "server/plan/limits.h"

#include <gmock/gmock.h>

#include <limits>

#include "server/plan/saturating.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/plan/planning.h"

namespace phitap {
namespace {

using ::testing::StartsWith;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kExhausted = absl::StatusCode::kResourceExhausted;
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

struct Ceiling {
  int64_t Limits::*limit;
  // The largest that the request below keeps to.
  int64_t asked;
  std::string message;
  absl::StatusCode code = absl::StatusCode::kInvalidArgument;
};

// Two runs of 5 and 3 tokens, two captures, 4 · 2 + 2 · 2 = 12 tensors:
// layer outputs of 2 selected positions and 3 selected columns, and the best
// two logits.
constexpr char kRequest[] =
    "runs { label: 'first' prompt { text: 'abcde' } }"
    "runs { label: 'other' prompt { text: 'abc' } }"
    "captures { label: 'outputs' hook_points: 'layers.*.layer_output' "
    "selection { positions { indices: [0, 2] } "
    "features { indices: [1, 2, 3] } } }"
    "captures { hook_points: 'logits' reduction { top_k { k: 2 } } }";

const Ceiling kCeilings[] = {
    {&Limits::max_runs, 2, "runs: 2 runs; valid: at most 1"},
    {&Limits::max_run_tokens, 5,
     "runs[0].prompt.text: the prompt has 5 tokens; valid: at most 4, this "
     "server's limit for a run"},
    {&Limits::max_request_tokens, 8,
     "runs: together they have 8 tokens or more; valid: at most 7"},
    {&Limits::max_text_bytes, 5,
     "runs[0].prompt.text: has 5 bytes of text; valid: at most 4"},
    {&Limits::max_label_bytes, 7,
     "captures[0].label: \"outputs\" has 7 bytes; valid: at most 6"},
    {&Limits::max_captures, 2, "captures: 2 captures; valid: at most 1"},
    {&Limits::max_tensors, 12,
     "captures[1]: brings the answer to 12 tensors; valid: at most 11"},
    // Eight values of 2 positions and 3 columns.
    {&Limits::max_selected_indices, 40,
     "captures[0]: brings the request to 40 selected indices and token ids; "
     "valid: at most 39"},
    // All 50 logits of 5 tokens in bfloat16.
    {&Limits::max_value_bytes, 500,
     "captures[1]: logits of run \"first\" has, before selection of columns "
     "and reduction, 500 bytes; valid: at most 499 bytes",
     kExhausted},
    // 8 · 2 · 3 · 2 of outputs, (5 + 3) · 2 · (2 + 4) of logits.
    {&Limits::max_response_bytes, 192,
     "captures: the answer would have 192 bytes; valid: at most 191 bytes",
     kExhausted},
};

TEST(Limits, AllowWhatTheySayAndNotOneMore) {
  for (const Ceiling& ceiling : kCeilings) {
    PlanContext context = TinyContext();
    context.limits.*ceiling.limit = ceiling.asked;
    EXPECT_THAT(Plan(kRequest, context), IsOk()) << ceiling.message;
    context.limits.*ceiling.limit = ceiling.asked - 1;
    EXPECT_THAT(Plan(kRequest, context),
                StatusIs(ceiling.code, StartsWith(ceiling.message)));
  }
}

TEST(Limits, CountTheLabelOfARun) {
  PlanContext context = TinyContext();
  context.limits.max_label_bytes = 4;
  EXPECT_THAT(Plan(kRequest, context),
              StatusIs(kInvalid, StartsWith("runs[0].label: \"first\" has 5")));
}

TEST(Limits, CountColumnsThatAreMadeButNotSelected) {
  PlanContext context = TinyContext();
  context.limits.max_value_bytes = 499;
  EXPECT_THAT(
      Plan(absl::StrCat(kFiveTokens,
                        "captures { hook_points: 'logits' "
                        "selection { features { indices: 0 } } }"),
           context),
      StatusIs(kExhausted, StartsWith("captures[0]: logits of run \"0\" has, "
                                      "before selection of columns and "
                                      "reduction, 500 bytes")));
  // Positions that are not selected are not made.
  EXPECT_THAT(
      Plan(absl::StrCat(kFiveTokens,
                        "captures { hook_points: 'logits' "
                        "selection { positions { indices: [0, 1, 2, 3] } } }"),
           context),
      IsOk());
}

TEST(Limits, CountTheTokensOfALensForEveryValue) {
  const std::string request =
      absl::StrCat(kFiveTokens, "captures { hook_points: 'layers.*.layer_mid' ",
                   "reduction { logit_lens { k: 1 token_ids: [1, 2, 3] } } }");
  PlanContext context = TinyContext();
  context.limits.max_selected_indices = 12;
  EXPECT_THAT(Plan(request, context), IsOk());
  context.limits.max_selected_indices = 11;
  EXPECT_THAT(Plan(request, context),
              StatusIs(kInvalid, StartsWith("captures[0]: brings the request "
                                            "to 12 selected indices")));
}

TEST(Limits, HoldForSizesPastTheLargestNumber) {
  ModelSpec spec = TinyGrouped();
  spec.vocab_size = int64_t{1} << 62;
  PlanContext context = {.model = "vast", .spec = spec};
  EXPECT_THAT(Plan(absl::StrCat(kFiveTokens, kLogits), context),
              StatusIs(kExhausted, StartsWith("captures[0]: logits of run")));
  context.limits.max_value_bytes = kMax;
  EXPECT_THAT(Plan(absl::StrCat(kFiveTokens, kLogits), context),
              StatusIs(kExhausted, StartsWith("captures: the answer would")));
}

TEST(Saturating, StaysAtTheLargestNumber) {
  EXPECT_EQ(SaturatingAdd(2, 3), 5);
  EXPECT_EQ(SaturatingAdd(kMax, 1), kMax);
  EXPECT_EQ(SaturatingMultiply(2, 3), 6);
  EXPECT_EQ(SaturatingMultiply(int64_t{1} << 32, int64_t{1} << 31), kMax);
}

}  // namespace
}  // namespace phitap
