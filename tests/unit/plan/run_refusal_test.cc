#include <gmock/gmock.h>

#include "tests/support/status_matchers.h"
#include "tests/unit/plan/planning.h"

namespace phitap {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr auto kPrecondition = absl::StatusCode::kFailedPrecondition;

Refusal Run(const std::string& prompt, const std::string& message,
            absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
  return {.request = absl::StrCat("runs { prompt { ", prompt, " } }", kLogits),
          .message = message,
          .code = code};
}

Refusal Runs(const std::string& runs, const std::string& message) {
  return {.request = runs + kLogits, .message = message};
}

std::string Tokens(const std::string& more) {
  return "tokens { ids: [1,2,3,4,5] } " + more;
}

const Refusal kRefusals[] = {
    Runs("", "runs: none given; valid: at least one run"),
    Runs("runs {}", "runs[0].prompt: has nothing to read; valid: one of text,"),
    Run("", "runs[0].prompt: has nothing to read"),
    Run("tokens {}", "runs[0].prompt.tokens.ids: the prompt is empty"),
    Run("text: ''", "runs[0].prompt.text: the prompt is empty"),
    Run("text: '  '", "runs[0].prompt.text: the prompt is empty"),
    Run("chat {}", "runs[0].prompt.chat.messages: the conversation is empty"),
    Run("chat { messages { content: 'a' } }",
        "runs[0].prompt.chat.messages[0].role: is empty"),
    Run("chat { messages { role: 'user' content: ' ' } }",
        "runs[0].prompt.chat: the prompt is empty"),
    Run("chat { messages { role: 'nobody' content: 'a' } }",
        "runs[0].prompt.chat.messages[0].role: nobody is no role"),
    Run("text: '!'", "runs[0].prompt.text: the tokenizer failed",
        absl::StatusCode::kInternal),
    Run("text: 'abA'",
        "runs[0].prompt.text: its token 2 has id -32, which the model has no "
        "embedding for; valid: 0 to 49"),
    Run("tokens { ids: [1, 50] }",
        "runs[0].prompt.tokens.ids[1]: token id 50 is not in the vocabulary; "
        "valid: 0 to 49"),
    Run("tokens { ids: [-1] }", "runs[0].prompt.tokens.ids[0]: token id -1"),
    Run("text: 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'",
        "runs[0].prompt.text: the prompt has 65 tokens; valid: at most 64, the "
        "model's max_position_embeddings"),
    Run(Tokens("hidden_positions {}"),
        "runs[0].prompt.hidden_positions: is set but selects nothing"),
    Run(Tokens("hidden_positions { indices: [0, 5] }"),
        "runs[0].prompt.hidden_positions.indices[1]: 5 is outside the 5 tokens "
        "of run \"0\"; valid: -5 to 4"),
    Run(Tokens("hidden_positions { ranges { start: 1 stop: 9 } }"),
        "runs[0].prompt.hidden_positions.ranges[0].stop: 9 is outside"),
    Run(Tokens("hidden_positions { indices: [1, -4] }"),
        "runs[0].prompt.hidden_positions.indices[1]: index 1 is named twice"),
    Run(Tokens("position_ids: [0, 1]"),
        "runs[0].prompt.position_ids: 2 position ids for 5 tokens; valid: one "
        "a token, or none"),
    Run(Tokens("position_ids: [0, 1, 2, 3, 64]"),
        "runs[0].prompt.position_ids[4]: position 64 is out of range; valid: 0 "
        "to 63"),
    Run(Tokens("position_ids: [0, 1, -2, 3, 4]"),
        "runs[0].prompt.position_ids[2]: position -2 is out of range"),
    Run("same_as: 'x'",
        "runs[0].prompt.same_as: no run is labelled \"x\"; valid: nearest are "
        "\"0\""),
    Run("same_as: '0'",
        "runs[0].prompt.same_as: run \"0\" gets its tokens from this run"),
    Run("same_as: ''", "runs[0].prompt.same_as: no run is labelled \"\""),
    Runs("runs { label: 'a' prompt { same_as: 'b' } }"
         "runs { label: 'b' prompt { same_as: 'a' } }",
         "runs[1].prompt.same_as: run \"a\" gets its tokens from this run"),
    Runs("runs { label: 'a' prompt { same_as: 'b' } }"
         "runs { label: 'b' prompt { same_as: 'c' } }"
         "runs { label: 'c' prompt { same_as: 'b' } }",
         "gets its tokens from this run"),
    Runs("runs { label: 'a' prompt { same_as: 'b' } }"
         "runs { label: 'b' prompt { tokens {} } }",
         "runs[1].prompt.tokens.ids: the prompt is empty"),
    Runs("runs { label: 'a' prompt { text: 'a' } }"
         "runs { label: 'a' prompt { text: 'a' } }",
         "runs[1].label: \"a\" is the label of runs[0] as well"),
    Runs("runs { label: '1' prompt { text: 'a' } } runs { prompt { text: 'a' } "
         "}",
         "runs[1].label: \"1\" is the label of runs[0] as well"),
    Runs("runs { label: 'clean' prompt { text: 'a' } }"
         "runs { label: 'edited' prompt { same_as: 'claen' } }",
         "no run is labelled \"claen\"; valid: nearest are \"clean\""),
};

TEST(PlanTrace, RefusesRunsThatCannotBeRead) {
  for (const Refusal& refusal : kRefusals) {
    const auto plan = Plan(refusal.request);
    EXPECT_THAT(plan, StatusIs(refusal.code, HasSubstr(refusal.message)))
        << refusal.request << "\n"
        << plan.status();
    // The message starts with the field, which clients also get by itself.
    EXPECT_THAT(std::string(plan.status().message()),
                StartsWith(FieldOf(plan.status()) + ": "))
        << refusal.request;
    EXPECT_FALSE(FieldOf(plan.status()).empty());
  }
}

TEST(PlanTrace, RefusesTextWithoutATokenizer) {
  PlanContext context = TinyContext();
  context.encode = nullptr;
  EXPECT_THAT(
      Plan(absl::StrCat("runs { prompt { text: 'a' } }", kLogits), context),
      StatusIs(kPrecondition,
               HasSubstr("runs[0].prompt.text: model tiny has no tokenizer; "
                         "valid: token ids")));
  EXPECT_THAT(Plan(absl::StrCat(
                       "runs { prompt { chat { messages { role: 'user' } } } }",
                       kLogits),
                   context),
              StatusIs(kPrecondition, HasSubstr("runs[0].prompt.chat: ")));
  EXPECT_THAT(Plan(absl::StrCat(kFiveTokens, kLogits), context), IsOk());
}

}  // namespace
}  // namespace phitap
