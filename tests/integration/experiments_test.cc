// Edits, programs, gradients, sweeps and generation through the real server.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/served_models_fixture.h"

namespace phitap {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::TraceRequest Parsed(const std::string& text) {
  v1::TraceRequest request;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &request))
      << text;
  return request;
}

std::vector<float> FloatsOf(const std::string& bytes) {
  std::vector<float> floats(bytes.size() / 4);
  std::memcpy(floats.data(), bytes.data(), floats.size() * 4);
  return floats;
}

class ExperimentsTest : public ServedModelsTest {
 protected:
  TraceAnswer Get(const v1::TraceRequest& request) {
    TraceAnswer answer = Trace(stub(), request);
    EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
    EXPECT_TRUE(answer.summary.has_value());
    for (const v1::RunStatus& run : answer.summary->runs()) {
      EXPECT_EQ(run.code(), 0) << run.run() << ": " << run.message();
    }
    return answer;
  }
};

TEST_F(ExperimentsTest, PatchesAValueOfOneRunIntoAnother) {
  const TraceAnswer answer = Get(Parsed(R"pb(
    model: "demo"
    runs {
      label: "clean"
      prompt { tokens { ids: [ 1, 5, 9 ] } }
    }
    runs {
      label: "patched"
      prompt { tokens { ids: [ 7, 7, 2 ] } }
      interventions {
        hook_points: "layers.2.layer_output"
        set { value { run { run: "clean" } } }
      }
    }
    runs {
      label: "plain"
      prompt { tokens { ids: [ 7, 7, 2 ] } }
    }
    captures { label: "logits" hook_points: "logits" }
  )pb"));
  EXPECT_EQ(answer.Bytes("patched", "logits"), answer.Bytes("clean", "logits"));
  EXPECT_NE(answer.Bytes("patched", "logits"), answer.Bytes("plain", "logits"));
}

TEST_F(ExperimentsTest, ReadsBeforeAndAfterAnEdit) {
  const TraceAnswer answer = Get(Parsed(R"pb(
    model: "tiny"
    runs {
      label: "a"
      prompt { tokens { ids: [ 1, 5, 9 ] } }
      interventions {
        hook_points: "layers.1.mlp_output"
        set { value { number: 0 } }
      }
    }
    captures { label: "after" hook_points: "layers.1.mlp_output" }
    captures {
      label: "before"
      hook_points: "layers.1.mlp_output"
      read_time: READ_TIME_BEFORE
    }
  )pb"));
  const std::string& after = answer.Bytes("a", "after");
  EXPECT_EQ(after, std::string(after.size(), '\0'));
  EXPECT_NE(answer.Bytes("a", "before"), after);
}

TEST_F(ExperimentsTest, AnswersASweepWithOneTensorAMetric) {
  const TraceAnswer answer = Get(Parsed(R"pb(
    model: "demo"
    runs {
      label: "clean"
      prompt { tokens { ids: [ 1, 5, 9 ] } }
    }
    runs {
      label: "corrupt"
      prompt { tokens { ids: [ 7, 7, 2 ] } }
    }
    sweeps {
      label: "grid"
      run: "corrupt"
      interventions {
        hook_points: "layers.*.layer_output"
        set { value { run { run: "clean" } } }
      }
      axes { layers {} }
      axes { positions {} }
      metrics {
        label: "logit"
        logit { token_id: 3 }
      }
    }
    captures {
      label: "last"
      hook_points: "logits"
      selection {
        positions { indices: -1 }
        features { indices: 3 }
      }
      dtype: DATA_TYPE_F32
    }
  )pb"));
  EXPECT_EQ(answer.runs.size(), 2u);
  EXPECT_EQ(answer.summary->runs_size(), 2);
  const std::vector<float> grid = FloatsOf(answer.Bytes("", "grid", "logit"));
  ASSERT_EQ(grid.size(), 6u * 3u);
  // The last layer's last position is all that the logits there depend on.
  EXPECT_EQ(grid.back(), FloatsOf(answer.Bytes("clean", "last"))[0]);
  EXPECT_EQ(grid[15], FloatsOf(answer.Bytes("corrupt", "last"))[0]);
}

TEST_F(ExperimentsTest, GivesGradientsAndNodes) {
  const TraceAnswer answer = Get(Parsed(R"pb(
    model: "tiny"
    runs {
      label: "a"
      prompt { tokens { ids: [ 1, 5, 9 ] } }
    }
    program {
      nodes {
        name: "residual"
        read { run: "a" hook_point: "layers.1.layer_output" }
      }
      nodes {
        name: "norms"
        inputs: "residual"
        reduce { kind: REDUCE_KIND_NORM dimensions: -1 }
      }
    }
    captures { label: "norms" node: "norms" }
    gradients {
      label: "slope"
      of {
        run: "a"
        logit { token_id: 3 }
      }
      hook_points: "layers.1.layer_output"
    }
  )pb"));
  EXPECT_EQ(answer.Bytes("", "norms").size(), 3 * sizeof(float));
  int slopes = 0;
  for (const auto& [number, tensor] : answer.tensors) {
    if (tensor.label() != "slope") continue;
    ++slopes;
    bool zero = true;
    for (float slope : FloatsOf(answer.bytes.at(number))) zero &= slope == 0;
    EXPECT_FALSE(zero);
  }
  EXPECT_EQ(slopes, 1);
}

// A prompt in words that generates.
v1::TraceRequest Completion(int max_tokens) {
  v1::TraceRequest request = Parsed(R"pb(
    model: "demo"
    runs {
      label: "a"
      prompt { text: "When Mary and John went to the store, John gave a" }
      generation { ignore_stop_ids: true }
    }
  )pb");
  request.mutable_runs(0)->mutable_generation()->set_max_tokens(max_tokens);
  return request;
}

std::vector<int> IdsOf(const TraceAnswer& answer) {
  std::vector<int> ids;
  for (const v1::GeneratedToken& token : answer.tokens) {
    ids.push_back(token.id());
  }
  return ids;
}

TEST_F(ExperimentsTest, StreamsTokensWithTheirTexts) {
  const TraceAnswer answer = Get(Completion(12));
  ASSERT_EQ(answer.tokens.size(), 12u);
  EXPECT_EQ(answer.summary->runs(0).finish_reason(), v1::FINISH_REASON_LENGTH);
  std::string text = "When Mary and John went to the store, John gave a";
  v1::DetokenizeRequest all;
  all.set_model("demo");
  *all.mutable_ids() = answer.runs[0].ids();
  for (int step = 1; step <= 12; ++step) {
    const v1::GeneratedToken& token = answer.tokens[step - 1];
    EXPECT_EQ(token.run(), "a");
    EXPECT_EQ(token.step(), step);
    EXPECT_LE(token.log_probability(), 0);
    text += token.text();
    all.add_ids(token.id());
  }
  grpc::ClientContext context;
  v1::DetokenizeResponse decoded;
  ASSERT_TRUE(stub().Detokenize(&context, all, &decoded).ok());
  EXPECT_EQ(decoded.text(), text);
}

TEST_F(ExperimentsTest, GeneratesTheSameInCompany) {
  const std::vector<int> alone = IdsOf(Get(Completion(20)));
  std::vector<std::thread> clients;
  for (int client = 0; client < 4; ++client) {
    clients.emplace_back([&] {
      const auto own = v1::ActivationService::NewStub(server().Connect());
      const TraceAnswer answer = Trace(*own, Completion(20));
      ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
      ASSERT_EQ(IdsOf(answer), alone);
    });
  }
  for (std::thread& client : clients) client.join();
}

TEST_F(ExperimentsTest, StopsAtAStopId) {
  const std::vector<int> ids = IdsOf(Get(Completion(8)));
  v1::TraceRequest request = Completion(8);
  v1::Generation& generation = *request.mutable_runs(0)->mutable_generation();
  generation.set_ignore_stop_ids(false);
  generation.add_stop_ids(ids[3]);
  const TraceAnswer answer = Get(request);
  EXPECT_EQ(answer.summary->runs(0).finish_reason(), v1::FINISH_REASON_STOP);
  EXPECT_EQ(answer.tokens.back().id(), ids[3]);
  EXPECT_LE(answer.tokens.size(), 4u);
}

TEST_F(ExperimentsTest, SendsCapturesOfTheStepsThatWereReached) {
  v1::TraceRequest request = Completion(5);
  v1::Capture& capture = AddCapture(request, "layers.1.layer_output");
  capture.mutable_selection()->mutable_steps()->add_ranges();
  const TraceAnswer answer = Get(request);
  // The prompt's and those of the first four tokens: the fifth never goes
  // through the model.
  std::vector<int> steps;
  for (const auto& [number, tensor] : answer.tensors) {
    steps.push_back(tensor.step());
    EXPECT_TRUE(answer.bytes.count(number));
  }
  EXPECT_THAT(steps, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(answer.summary->tensor_count(), 5);
}

TEST_F(ExperimentsTest, CancelsAGenerationHalfWayAndWorksOn) {
  grpc::ClientContext context;
  const auto reader = stub().Trace(&context, Completion(400));
  v1::TraceResponse response;
  int tokens = 0;
  while (tokens < 5 && reader->Read(&response)) tokens += response.has_token();
  EXPECT_EQ(tokens, 5);
  context.TryCancel();
  bool summary = false;
  while (reader->Read(&response)) summary |= response.has_summary();
  EXPECT_FALSE(summary);
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  ExpectWorks();
}

}  // namespace
}  // namespace phitap
