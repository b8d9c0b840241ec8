// Runs and options that are refused: one clear error each.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/integration/trace_refusals.h"

namespace phitap {
namespace {

using Request = v1::TraceRequest;
using Code = grpc::StatusCode;

v1::Prompt& PromptOf(Request& request) {
  return *request.mutable_runs(0)->mutable_prompt();
}
v1::Capture& CaptureOf(Request& request) {
  return *request.mutable_captures(0);
}
v1::Selection& SelectionOf(Request& request) {
  return *CaptureOf(request).mutable_selection();
}

std::vector<Refusal> ModelAndRunRefusals() {
  return {
      {"UnknownModel",
       [](Request& r) { r.set_model("dmo"); },
       {"model", "\"dmo\"", "demo"},
       Code::NOT_FOUND},
      {"NoModelWhereThereAreTwo",
       [](Request& r) { r.set_model(""); },
       {"model", "2 models", "demo"}},
      {"NoRuns", [](Request& r) { r.clear_runs(); }, {"runs"}},
      {"TooManyRuns",
       [](Request& r) {
         for (int i = 0; i < 1024; ++i) AddRun(r, {1});
       },
       {"runs", "1025", "1024"}},
      {"NoPrompt",
       [](Request& r) { r.mutable_runs(0)->clear_prompt(); },
       {"runs[0].prompt"}},
      {"EmptyPrompt",
       [](Request& r) { PromptOf(r).mutable_tokens()->Clear(); },
       {"runs[0].prompt.tokens", "empty"}},
      {"EmptyText",
       [](Request& r) { PromptOf(r).set_text(""); },
       {"runs[0].prompt.text", "empty"}},
      {"EmptyChat",
       [](Request& r) { PromptOf(r).mutable_chat(); },
       {"runs[0].prompt.chat"}},
      {"IdPastTheVocabulary",
       [](Request& r) { PromptOf(r).mutable_tokens()->set_ids(1, 1232); },
       {"runs[0].prompt.tokens.ids[1]", "1232", "1231"}},
      {"NegativeId",
       [](Request& r) { PromptOf(r).mutable_tokens()->set_ids(2, -1); },
       {"runs[0].prompt.tokens.ids[2]", "-1"}},
      {"OverLongPrompt",
       [](Request& r) {
         for (int i = 0; i < 510; ++i) PromptOf(r).mutable_tokens()->add_ids(1);
       },
       {"runs[0].prompt", "513", "512"}},
      {"OverLongText",
       [](Request& r) { PromptOf(r).set_text(std::string(5 << 20, 'a')); },
       {"runs[0].prompt.text", "5242880"}},
      {"LabelTwice",
       [](Request& r) { AddRun(r, {1}, "a"); },
       {"runs[1].label", "\"a\""}},
      {"LabelThatIsAnIndex",
       [](Request& r) {
         r.mutable_runs(0)->set_label("1");
         AddRun(r, {1});
       },
       {"label", "\"1\""}},
      {"LongLabel",
       [](Request& r) { r.mutable_runs(0)->set_label(std::string(300, 'x')); },
       {"runs[0].label", "300", "256"}},
      {"SameAsNobody",
       [](Request& r) { PromptOf(r).set_same_as("b"); },
       {"runs[0].prompt.same_as", "\"b\""}},
      {"SameAsItself",
       [](Request& r) { PromptOf(r).set_same_as("a"); },
       {"runs[0].prompt.same_as"}},
      {"HiddenPositionOutOfRange",
       [](Request& r) {
         PromptOf(r).mutable_hidden_positions()->add_indices(3);
       },
       {"runs[0].prompt.hidden_positions", "3"}},
      {"PositionIdsOfAnotherLength",
       [](Request& r) { PromptOf(r).add_position_ids(0); },
       {"runs[0].prompt.position_ids", "1"}},
      {"PositionIdTooLarge",
       [](Request& r) {
         for (int id : {0, 1, 512}) PromptOf(r).add_position_ids(id);
       },
       {"runs[0].prompt.position_ids[2]", "512"}},
      {"NegativePositionId",
       [](Request& r) {
         for (int id : {0, -1, 1}) PromptOf(r).add_position_ids(id);
       },
       {"runs[0].prompt.position_ids[1]", "-1"}},
      {"TextWithoutTokenizer",
       [](Request& r) {
         r.set_model("tiny");
         PromptOf(r).set_text("hello");
       },
       {"runs[0].prompt.text", "tokenizer"},
       Code::FAILED_PRECONDITION},
      {"ChatWithoutTokenizer",
       [](Request& r) {
         r.set_model("tiny");
         PromptOf(r).mutable_chat()->add_messages()->set_role("user");
       },
       {"runs[0].prompt.chat", "tokenizer"},
       Code::FAILED_PRECONDITION},
  };
}

std::vector<Refusal> RequestRefusals() {
  return {
      {"UnknownNumerics",
       [](Request& r) {
         r.mutable_options()->set_numerics(static_cast<v1::Numerics>(9));
       },
       {"options.numerics", "9"}},
      {"UnknownAttention",
       [](Request& r) {
         r.mutable_options()->set_attention(static_cast<v1::Attention>(9));
       },
       {"options.attention", "9"}},
      {"UnknownField",
       [](Request& r) {
         v1::Selection& selection = SelectionOf(r);
         selection.GetReflection()
             ->MutableUnknownFields(&selection)
             ->AddVarint(7, 1);
       },
       {"captures[0].selection", "7", "unknown"}},
      {"UnknownRequestField",
       [](Request& r) {
         r.GetReflection()->MutableUnknownFields(&r)->AddLengthDelimited(99,
                                                                         "");
       },
       {"TraceRequest", "99", "unknown"}},
      {"AnswerTooLarge",
       [](Request& r) {
         CaptureOf(r).set_hook_points("layers.*.attention_scores");
         PromptOf(r).mutable_tokens()->Clear();
         for (int i = 0; i < 512; ++i) PromptOf(r).mutable_tokens()->add_ids(1);
         for (int i = 0; i < 10; ++i) {
           AddRun(r, {}, absl::StrCat("r", i));
           r.mutable_runs(i + 1)->mutable_prompt()->set_same_as("a");
         }
       },
       {"bytes", "67108864"},
       Code::RESOURCE_EXHAUSTED},
  };
}

INSTANTIATE_TEST_SUITE_P(ModelAndRuns, TraceRefusals,
                         ::testing::ValuesIn(ModelAndRunRefusals()),
                         NameOfRefusal);
INSTANTIATE_TEST_SUITE_P(Requests, TraceRefusals,
                         ::testing::ValuesIn(RequestRefusals()), NameOfRefusal);

}  // namespace
}  // namespace phitap
