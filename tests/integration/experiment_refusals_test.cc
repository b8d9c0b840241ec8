// Experiments that are refused: one clear error each, and the server goes on;
// random ones, valid or not, never end it.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/integration/random_request.h"
#include "tests/integration/served_models_fixture.h"

namespace phitap {
namespace {

using ::testing::HasSubstr;
using Code = grpc::StatusCode;

struct ExperimentRefusal {
  std::string name;
  // Merged into a request of the runs `a` (1, 5, 9) and `b` (2, 6, 10) of the
  // demo model.
  std::string text;
  std::vector<std::string> says;
  Code code = Code::INVALID_ARGUMENT;
};

class ExperimentRefusals
    : public ServedModelsTest,
      public ::testing::WithParamInterface<ExperimentRefusal> {};

TEST_P(ExperimentRefusals, NameTheFieldAndLeaveTheServerWorking) {
  v1::TraceRequest request = GoodRequest();
  v1::TraceRequest more;
  ASSERT_TRUE(
      google::protobuf::TextFormat::ParseFromString(GetParam().text, &more));
  AddRun(request, {2, 6, 10}, "b");
  // A text's first run adds to run a.
  if (more.runs_size() > 0) {
    request.mutable_runs(0)->MergeFrom(more.runs(0));
    more.clear_runs();
  }
  request.MergeFrom(more);
  const TraceAnswer answer = Trace(stub(), request);
  EXPECT_EQ(answer.status.error_code(), GetParam().code)
      << answer.status.error_message();
  for (const std::string& text : GetParam().says) {
    EXPECT_THAT(answer.status.error_message(), HasSubstr(text));
  }
  EXPECT_FALSE(answer.header.has_value());
  ExpectWorks();
}

INSTANTIATE_TEST_SUITE_P(
    Experiments, ExperimentRefusals,
    ::testing::ValuesIn(std::vector<ExperimentRefusal>{
        {"EditWithoutHookPoint",
         "runs { interventions { skip {} } }",
         {"runs[0].interventions[0].hook_points"}},
        {"EditOfADerivedValue",
         R"(runs { interventions { hook_points: "input_ids"
                                   set { value { number: 1 } } } })",
         {"runs[0].interventions[0].hook_points", "input_ids"}},
        {"EditOfALayerPastTheLast",
         R"(runs { interventions { hook_points: "layers.6.layer_output"
                                   set { value { number: 1 } } } })",
         {"runs[0].interventions[0].hook_points", "6"}},
        {"EditThatSaysNothing",
         R"(runs { interventions { hook_points: "layers.1.layer_output" } })",
         {"runs[0].interventions[0]"}},
        {"EditOfAPositionPastTheLast",
         R"(runs { interventions { hook_points: "layers.1.layer_output"
                                   selection { positions { indices: 3 } }
                                   set { value { number: 1 } } } })",
         {"runs[0].interventions[0].selection.positions", "3"}},
        {"EditOfTokensThatDoNotOccur",
         R"(runs { interventions { hook_points: "layers.1.layer_output"
                                   selection { token_ids: 77 }
                                   set { value { number: 1 } } } })",
         {"runs[0].interventions[0].selection.token_ids"}},
        {"ValueOfARunThatIsNotThere",
         R"(runs { interventions { hook_points: "layers.1.layer_output"
                                   set { value { run { run: "c" } } } } })",
         {"runs[0].interventions[0].set.value.run", "\"c\""}},
        {"ValueOfAnotherShape",
         R"(runs { interventions {
                hook_points: "layers.1.layer_output"
                set { value { run { run: "b"
                                    hook_point: "layers.1.mlp_neurons" } } } }
            })",
         {"runs[0].interventions[0].set.value"}},
        {"RunsThatWaitForEachOther",
         R"(runs { interventions {
                hook_points: "layers.1.layer_output"
                set { value { run { hook_point: "layers.3.layer_output" } } } }
            })",
         {"runs[0].interventions[0]"}},
        {"ConstantThatIsNotThere",
         R"(runs { interventions { hook_points: "layers.1.layer_output"
                                   add { value { constant: "steer" } } } })",
         {"runs[0].interventions[0].add.value.constant", "steer"}},
        {"TensorThatIsNotThere",
         R"(runs { interventions { hook_points: "layers.1.layer_output"
                                   add { value { tensor_name: "steer" } } } })",
         {"runs[0].interventions[0].add.value.tensor_name", "steer"},
         Code::NOT_FOUND},
        {"KnockoutElsewhereThanAtTheScores",
         R"(runs { interventions { hook_points: "layers.1.layer_output"
                                   knockout {} } })",
         {"runs[0].interventions[0]"}},
        {"ProgramWithACycle",
         R"(program { nodes { name: "x" inputs: "y" function: FUNCTION_NEGATE }
                      nodes { name: "y" inputs: "x" function: FUNCTION_EXP } }
            captures { node: "x" })",
         {"program.nodes", "x", "y"}},
        {"NodeThatIsNotThere",
         R"(captures { node: "x" })",
         {"captures[1].node", "\"x\""}},
        {"GradientOfNothing",
         R"(gradients { hook_points: "layers.1.layer_output" })",
         {"gradients[0]"}},
        {"NoTokensToGenerate",
         "runs { generation {} }",
         {"runs[0].generation.max_tokens", "0"}},
        {"TooManyTokensToGenerate",
         "runs { generation { max_tokens: 40000 } }",
         {"runs[0].generation.max_tokens", "40000"}},
        {"NegativeTemperature",
         "runs { generation { max_tokens: 2 temperature: -1 } }",
         {"runs[0].generation.temperature", "-1"}},
        {"TopPOfNothing",
         "runs { generation { max_tokens: 2 top_p: 0 } }",
         {"runs[0].generation.top_p"}},
        {"ForcedIdPastTheVocabulary",
         "runs { generation { max_tokens: 2 forced_ids: 5000 } }",
         {"runs[0].generation.forced_ids[0]", "5000"}},
        {"SweepWithoutAxes",
         R"(sweeps { run: "a" interventions { hook_points:
            "layers.*.layer_output" skip {} } metrics { logit { token_id: 1 } }
            })",
         {"sweeps[0].axes"}},
        {"SweepOfNoRun",
         R"(sweeps { run: "c" interventions { hook_points:
            "layers.*.layer_output" skip {} } axes { layers {} }
            metrics { logit { token_id: 1 } } })",
         {"sweeps[0].run", "\"c\""}},
        {"StepsOfARunThatDoesNotGenerate",
         R"(captures { label: "x" hook_points: "layers.1.layer_output"
                       selection { steps { indices: 2 } } })",
         {"captures[1].selection.steps"}},
        {"KeptTensorsOfSeveral",
         R"(captures { label: "x" hook_points: "layers.1.layer_output"
                       tensor_name: "t" })",
         {"captures[1].tensor_name"}},
    }),
    [](const auto& info) { return info.param.name; });

class RandomExperiments : public ServedModelsTest {};

TEST_F(RandomExperiments, NeverEndTheServerNorFailInside) {
  std::mt19937 random(11);
  int accepted = 0;
  for (int i = 0; i < 400; ++i) {
    const v1::TraceRequest request = RandomRequest(random);
    const TraceAnswer answer = Trace(stub(), request);
    const Code code = answer.status.error_code();
    ASSERT_TRUE(code == Code::OK || code == Code::INVALID_ARGUMENT ||
                code == Code::NOT_FOUND || code == Code::RESOURCE_EXHAUSTED)
        << answer.status.error_message() << "\n"
        << request.DebugString();
    if (code != Code::OK) continue;
    ++accepted;
    ASSERT_TRUE(answer.summary.has_value());
    for (const v1::RunStatus& run : answer.summary->runs()) {
      ASSERT_NE(run.code(), static_cast<int>(Code::INTERNAL))
          << run.message() << "\n"
          << request.DebugString();
    }
  }
  // Else the test would say nothing about what runs.
  EXPECT_GT(accepted, 100);
  ExpectWorks();
}

}  // namespace
}  // namespace phitap
