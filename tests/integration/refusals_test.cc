// Requests that are refused: one clear error each, and the server goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tests/integration/served_models_fixture.h"
#include "tests/support/raw_call.h"

namespace phitap {
namespace {

using ::testing::HasSubstr;
using Request = v1::TraceRequest;
using Code = grpc::StatusCode;

struct Refusal {
  std::string name;
  // What makes a good request a bad one.
  std::function<void(Request&)> spoil;
  // In the message: the field, and what else must be said.
  std::vector<std::string> says;
  Code code = Code::INVALID_ARGUMENT;
};

class Refusals : public ServedModelsTest,
                 public ::testing::WithParamInterface<Refusal> {};

TEST_P(Refusals, NameTheFieldAndLeaveTheServerWorking) {
  Request request = GoodRequest();
  GetParam().spoil(request);
  const TraceAnswer answer = Trace(stub(), request);
  EXPECT_EQ(answer.status.error_code(), GetParam().code);
  for (const std::string& text : GetParam().says) {
    EXPECT_THAT(answer.status.error_message(), HasSubstr(text));
  }
  EXPECT_FALSE(answer.header.has_value());
  EXPECT_FALSE(answer.summary.has_value());

  // The dry run refuses it in the same words.
  grpc::ClientContext context;
  v1::PlanTraceRequest plan;
  *plan.mutable_trace() = request;
  v1::PlanTraceResponse planned;
  const grpc::Status status = stub().PlanTrace(&context, plan, &planned);
  EXPECT_EQ(status.error_code(), GetParam().code);
  ExpectWorks();
}

v1::Prompt& PromptOf(Request& request) {
  return *request.mutable_runs(0)->mutable_prompt();
}
v1::Capture& CaptureOf(Request& request) {
  return *request.mutable_captures(0);
}
v1::Selection& SelectionOf(Request& request) {
  return *CaptureOf(request).mutable_selection();
}
v1::Reduction& ReductionOf(Request& request) {
  return *CaptureOf(request).mutable_reduction();
}
// Reads `hook_points` instead.
std::function<void(Request&)> Hook(const std::string& hook_points) {
  return [=](Request& r) { CaptureOf(r).set_hook_points(hook_points); };
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

std::vector<Refusal> CaptureRefusals() {
  return {
      {"NoCaptures", [](Request& r) { r.clear_captures(); }, {"captures"}},
      {"NoHookPoint", Hook(""), {"captures[0]", "hook_points"}},
      {"UnknownHookPoint",
       Hook("layers.0.layer_outptu"),
       {"captures[0].hook_points", "layer_output"}},
      {"UnknownModelHookPoint",
       Hook("logit"),
       {"captures[0].hook_points", "logits"}},
      {"LayerPastTheLast",
       Hook("layers.6.layer_output"),
       {"captures[0].hook_points", "6", "0 to 5"}},
      {"LayerBeforeTheFirst",
       Hook("layers.-7.layer_output"),
       {"captures[0].hook_points", "-7"}},
      {"LayerRangePastTheLast",
       Hook("layers.4-6.layer_output"),
       {"captures[0].hook_points", "6"}},
      {"LayerRangeBackwards",
       Hook("layers.4-2.layer_output"),
       {"captures[0].hook_points"}},
      {"LayerHookWithoutLayer",
       Hook("layer_output"),
       {"captures[0].hook_points"}},
      {"OpenBrace",
       Hook("layers.{0,1.layer_output"),
       {"captures[0].hook_points"}},
      {"RunsOfNobody",
       [](Request& r) { CaptureOf(r).add_runs("b"); },
       {"captures[0].runs[0]", "\"b\""}},
      {"CaptureTwice",
       [](Request& r) { AddCapture(r, "layers.0.layer_output"); },
       {"captures[1]"}},
      {"CaptureLabelTwice",
       [](Request& r) {
         CaptureOf(r).set_label("x");
         AddCapture(r, "logits").set_label("x");
       },
       {"captures[1].label", "\"x\""}},
      {"PositionPastTheLast",
       [](Request& r) { SelectionOf(r).mutable_positions()->add_indices(3); },
       {"captures[0].selection.positions", "3"}},
      {"PositionBeforeTheFirst",
       [](Request& r) { SelectionOf(r).mutable_positions()->add_indices(-4); },
       {"captures[0].selection.positions", "-4"}},
      {"PositionTwice",
       [](Request& r) {
         SelectionOf(r).mutable_positions()->add_indices(2);
         SelectionOf(r).mutable_positions()->add_indices(-1);
       },
       {"captures[0].selection.positions", "twice"}},
      {"NoPositions",
       [](Request& r) { SelectionOf(r).mutable_positions(); },
       {"captures[0].selection.positions", "nothing"}},
      {"EmptyPositionRange",
       [](Request& r) {
         v1::IndexRange& range =
             *SelectionOf(r).mutable_positions()->add_ranges();
         range.set_start(2);
         range.set_stop(2);
       },
       {"captures[0].selection.positions.ranges[0]"}},
      {"NoStep",
       [](Request& r) {
         SelectionOf(r).mutable_positions()->add_ranges()->set_step(0);
       },
       {"captures[0].selection.positions.ranges[0].step", "0"}},
      {"TokenIdsThatDoNotOccur",
       [](Request& r) { SelectionOf(r).add_token_ids(7); },
       {"captures[0].selection.token_ids"}},
      {"TokenIdsAndPositions",
       [](Request& r) {
         SelectionOf(r).add_token_ids(5);
         SelectionOf(r).mutable_positions()->add_indices(0);
       },
       {"captures[0].selection"}},
      {"HeadsWhereThereAreNone",
       [](Request& r) { SelectionOf(r).mutable_heads()->add_indices(0); },
       {"captures[0].selection.heads", "layer_output"}},
      {"HeadPastTheLast",
       [](Request& r) {
         CaptureOf(r).set_hook_points("layers.0.attention_queries");
         SelectionOf(r).mutable_heads()->add_indices(6);
       },
       {"captures[0].selection.heads", "6"}},
      {"KeyHeadPastTheLast",
       [](Request& r) {
         CaptureOf(r).set_hook_points("layers.0.attention_keys");
         SelectionOf(r).mutable_heads()->add_indices(3);
       },
       {"captures[0].selection.heads", "3"}},
      {"FeaturePastTheLast",
       [](Request& r) { SelectionOf(r).mutable_features()->add_indices(192); },
       {"captures[0].selection.features", "192"}},
      {"QueriesWhereThereAreNone",
       [](Request& r) { SelectionOf(r).mutable_queries()->add_indices(0); },
       {"captures[0].selection.queries"}},
      {"PositionsOfScores",
       [](Request& r) {
         CaptureOf(r).set_hook_points("layers.0.attention_scores");
         SelectionOf(r).mutable_positions()->add_indices(0);
       },
       {"captures[0].selection.positions"}},
  };
}

std::vector<Refusal> ReductionRefusals() {
  return {
      {"NoReductionKind",
       [](Request& r) { ReductionOf(r); },
       {"captures[0].reduction"}},
      {"TopNothing",
       [](Request& r) { ReductionOf(r).mutable_top_k()->set_k(0); },
       {"captures[0].reduction.top_k.k", "0"}},
      {"TopMoreThanThereAre",
       [](Request& r) { ReductionOf(r).mutable_top_k()->set_k(193); },
       {"captures[0].reduction.top_k.k", "193", "192"}},
      {"MeanWithoutPositions",
       [](Request& r) {
         CaptureOf(r).set_hook_points("layers.0.attention_probabilities");
         ReductionOf(r).mutable_mean_over_positions();
       },
       {"captures[0].reduction.mean_over_positions", "seq"}},
      {"NormOfIntegers",
       [](Request& r) {
         CaptureOf(r).set_hook_points("input_ids");
         ReductionOf(r).mutable_norm();
       },
       {"captures[0].reduction"}},
      {"LensOfNeurons",
       [](Request& r) {
         CaptureOf(r).set_hook_points("layers.0.mlp_neurons");
         ReductionOf(r).mutable_logit_lens()->set_k(1);
       },
       {"captures[0].reduction.logit_lens", "mlp_neurons"}},
      {"LensOfSomeFeatures",
       [](Request& r) {
         SelectionOf(r).mutable_features()->add_indices(0);
         ReductionOf(r).mutable_logit_lens()->set_k(1);
       },
       {"captures[0].reduction.logit_lens"}},
      {"LensPastTheVocabulary",
       [](Request& r) { ReductionOf(r).mutable_logit_lens()->set_k(1233); },
       {"captures[0].reduction.logit_lens.k", "1233", "1232"}},
      {"LensOfAnIdPastTheVocabulary",
       [](Request& r) {
         ReductionOf(r).mutable_logit_lens()->set_k(1);
         ReductionOf(r).mutable_logit_lens()->add_token_ids(5000);
       },
       {"captures[0].reduction.logit_lens.token_ids[0]", "5000"}},
      {"IntegersOnTheWire",
       [](Request& r) { CaptureOf(r).set_dtype(v1::DATA_TYPE_I64); },
       {"captures[0].dtype"}},
      {"UnknownDtype",
       [](Request& r) {
         CaptureOf(r).set_dtype(static_cast<v1::DataType>(77));
       },
       {"captures[0].dtype", "77"}},
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

std::string NameOf(const ::testing::TestParamInfo<Refusal>& info) {
  return info.param.name;
}
INSTANTIATE_TEST_SUITE_P(ModelAndRuns, Refusals,
                         ::testing::ValuesIn(ModelAndRunRefusals()), NameOf);
INSTANTIATE_TEST_SUITE_P(Captures, Refusals,
                         ::testing::ValuesIn(CaptureRefusals()), NameOf);
INSTANTIATE_TEST_SUITE_P(Reductions, Refusals,
                         ::testing::ValuesIn(ReductionRefusals()), NameOf);

class OtherRefusals : public ServedModelsTest {
 protected:
  void TearDown() override { ExpectWorks(); }
  grpc::ClientContext context_;
};

TEST_F(OtherRefusals, TraceOfBytesThatAreNoRequest) {
  RawCall call(server().Connect(), "/phitap.v1.ActivationService/Trace",
               "\x0a\xff");
  EXPECT_FALSE(call.Read().has_value());
  EXPECT_EQ(call.Finish().error_code(), Code::INVALID_ARGUMENT);
}

TEST_F(OtherRefusals, AMethodThatDoesNotExist) {
  RawCall call(server().Connect(), "/phitap.v1.ActivationService/Train", "");
  EXPECT_FALSE(call.Read().has_value());
  EXPECT_EQ(call.Finish().error_code(), Code::UNIMPLEMENTED);
}

TEST_F(OtherRefusals, GetModelOfAnUnknownModel) {
  v1::GetModelRequest request;
  request.set_model("phi");
  v1::GetModelResponse response;
  const grpc::Status status = stub().GetModel(&context_, request, &response);
  EXPECT_EQ(status.error_code(), Code::NOT_FOUND);
  EXPECT_THAT(status.error_message(), HasSubstr("demo"));
}

TEST_F(OtherRefusals, GetModelWithAnUnknownField) {
  v1::GetModelRequest request;
  request.GetReflection()->MutableUnknownFields(&request)->AddVarint(2, 1);
  v1::GetModelResponse response;
  EXPECT_EQ(stub().GetModel(&context_, request, &response).error_code(),
            Code::INVALID_ARGUMENT);
}

TEST_F(OtherRefusals, TokenizeOfNothing) {
  v1::TokenizeRequest request;
  request.set_model("demo");
  v1::TokenizeResponse response;
  const grpc::Status status = stub().Tokenize(&context_, request, &response);
  EXPECT_EQ(status.error_code(), Code::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("input: not set"));
}

TEST_F(OtherRefusals, TokenizeOfAModelWithoutTokenizer) {
  v1::TokenizeRequest request;
  request.set_model("tiny");
  request.set_text("hello");
  v1::TokenizeResponse response;
  EXPECT_EQ(stub().Tokenize(&context_, request, &response).error_code(),
            Code::FAILED_PRECONDITION);
}

TEST_F(OtherRefusals, TokenizeOfAnEmptyChat) {
  v1::TokenizeRequest request;
  request.set_model("demo");
  request.mutable_chat();
  v1::TokenizeResponse response;
  const grpc::Status status = stub().Tokenize(&context_, request, &response);
  EXPECT_EQ(status.error_code(), Code::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("chat.messages"));
}

TEST_F(OtherRefusals, DetokenizeOfNoIds) {
  v1::DetokenizeRequest request;
  request.set_model("demo");
  v1::DetokenizeResponse response;
  const grpc::Status status = stub().Detokenize(&context_, request, &response);
  EXPECT_EQ(status.error_code(), Code::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("ids: empty"));
}

TEST_F(OtherRefusals, DetokenizeOfAnIdPastTheVocabulary) {
  v1::DetokenizeRequest request;
  request.set_model("demo");
  request.add_ids(1);
  request.add_ids(1232);
  v1::DetokenizeResponse response;
  const grpc::Status status = stub().Detokenize(&context_, request, &response);
  EXPECT_EQ(status.error_code(), Code::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("ids[1]: 1232"));
}

}  // namespace
}  // namespace phitap
