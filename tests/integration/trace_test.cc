// Traces through the real server: streams, neighbours, cancellation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/served_models_fixture.h"

namespace phitap {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

class TraceTest : public ServedModelsTest {
 protected:
  TraceAnswer Get(const v1::TraceRequest& request) {
    TraceAnswer answer = Trace(stub(), request);
    EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
    EXPECT_TRUE(answer.summary.has_value());
    return answer;
  }
};

v1::TraceRequest EveryLayer(const std::string& model) {
  v1::TraceRequest request;
  request.set_model(model);
  AddCapture(request, "layers.*.layer_output");
  AddCapture(request, "layers.1.attention_probabilities");
  AddCapture(request, "logits");
  return request;
}

TEST_F(TraceTest, AnswersWithHeaderTokensTensorsAndSummary) {
  v1::TraceRequest request = EveryLayer("demo");
  request.add_runs()->mutable_prompt()->set_text("When Mary and John went");
  const TraceAnswer answer = Get(request);

  EXPECT_EQ(answer.header->model(), "demo");
  EXPECT_EQ(answer.header->request_id().size(), 16u);
  EXPECT_EQ(answer.header->numerics(), v1::NUMERICS_CAUSAL);
  EXPECT_EQ(answer.header->attention(), v1::ATTENTION_SDPA);
  EXPECT_TRUE(answer.header->batch_invariant());
  EXPECT_EQ(answer.header->weights_digest().size(), 32u);
  EXPECT_THAT(answer.header->numerics_fingerprint(), Not(IsEmpty()));
  EXPECT_EQ(answer.header->tensor_count(), 8);
  ASSERT_EQ(answer.runs.size(), 1u);
  const int64_t tokens = answer.runs[0].ids_size();
  std::string text;
  for (const std::string& part : answer.runs[0].texts()) text += part;
  EXPECT_EQ(text, "When Mary and John went");
  EXPECT_THAT(answer.tensors.at(0).shape(), ElementsAre(tokens, 192));
  EXPECT_EQ(answer.tensors.at(0).dtype(), v1::DATA_TYPE_BF16);
  EXPECT_THAT(answer.tensors.at(6).shape(), ElementsAre(6, tokens, tokens));
  EXPECT_EQ(answer.summary->tensor_count(), 8);
  EXPECT_EQ(answer.summary->size_bytes(), answer.header->size_bytes());
  EXPECT_EQ(answer.summary->token_layers_computed(), 6 * tokens);
  EXPECT_EQ(answer.summary->token_layers_saved(), 0);
  EXPECT_EQ(answer.summary->runs(0).code(), 0);
}

TEST_F(TraceTest, ComputesOnlyTheLayersThatAreAskedFor) {
  const TraceAnswer answer = Get(GoodRequest());
  EXPECT_LE(answer.summary->token_layers_computed(), 3);
  EXPECT_GE(answer.summary->token_layers_saved(), 15);
}

TEST_F(TraceTest, ReturnsWhatThePlanSays) {
  v1::PlanTraceRequest request;
  v1::TraceRequest& trace = *request.mutable_trace();
  trace = EveryLayer("tiny");
  AddRun(trace, {1, 2, 3});
  AddRun(trace, {4, 5});
  grpc::ClientContext context;
  v1::PlanTraceResponse plan;
  ASSERT_TRUE(stub().PlanTrace(&context, request, &plan).ok());
  const TraceAnswer answer = Get(trace);
  ASSERT_EQ(plan.tensors_size(), static_cast<int>(answer.tensors.size()));
  for (const v1::TensorDescriptor& tensor : plan.tensors()) {
    EXPECT_EQ(tensor.SerializeAsString(),
              answer.tensors.at(tensor.tensor()).SerializeAsString());
  }
  EXPECT_EQ(plan.size_bytes(), answer.summary->size_bytes());
  EXPECT_EQ(plan.token_layers(), answer.summary->token_layers_computed());
}

TEST_F(TraceTest, TellsProgressIfAsked) {
  v1::TraceRequest request = EveryLayer("demo");
  AddRun(request, {1, 2, 3});
  EXPECT_THAT(Get(request).progress, IsEmpty());
  request.mutable_options()->set_report_progress(true);
  const TraceAnswer answer = Get(request);
  ASSERT_THAT(answer.progress, Not(IsEmpty()));
  EXPECT_EQ(answer.progress.back().layers_total(), 6);
  EXPECT_EQ(answer.progress.back().layers_done(), 6);
}

TEST_F(TraceTest, RunsEveryNumericsAndAttention) {
  for (v1::Numerics numerics :
       {v1::NUMERICS_CAUSAL, v1::NUMERICS_TRANSFORMERS}) {
    for (v1::Attention attention : {v1::ATTENTION_SDPA, v1::ATTENTION_EAGER}) {
      v1::TraceRequest request = EveryLayer("tiny");
      AddRun(request, {1, 2, 3, 4});
      AddRun(request, {5, 6});
      request.mutable_options()->set_numerics(numerics);
      request.mutable_options()->set_attention(attention);
      request.mutable_options()->set_isolate(true);
      const TraceAnswer answer = Get(request);
      EXPECT_EQ(answer.header->numerics(), numerics);
      EXPECT_EQ(answer.header->attention(), attention);
      EXPECT_EQ(answer.bytes.size(), answer.tensors.size());
    }
  }
}

// Random prompts with what each gives alone.
struct Lone {
  std::vector<int> ids;
  TraceAnswer answer;
};

v1::TraceRequest RequestOf(const std::vector<const Lone*>& lones) {
  v1::TraceRequest request = EveryLayer("tiny");
  for (const Lone* lone : lones) {
    v1::TokenIds& tokens =
        *request.add_runs()->mutable_prompt()->mutable_tokens();
    tokens.mutable_ids()->Add(lone->ids.begin(), lone->ids.end());
  }
  return request;
}

TEST_F(TraceTest, GivesEachOfManyClientsTheBitsOfItsRunsAlone) {
  std::mt19937 random(3);
  std::vector<Lone> lones(12);
  for (Lone& lone : lones) {
    lone.ids.resize(1 + random() % 40);
    for (int& id : lone.ids) id = static_cast<int>(random() % 96);
    lone.answer = Get(RequestOf({&lone}));
  }
  std::vector<std::thread> clients;
  for (int client = 0; client < 6; ++client) {
    clients.emplace_back([&, client] {
      const auto own = v1::ActivationService::NewStub(server().Connect());
      std::mt19937 order(client);
      for (int i = 0; i < 6; ++i) {
        std::vector<const Lone*> picked;
        for (int run = 0; run < 5; ++run) {
          picked.push_back(&lones[order() % lones.size()]);
        }
        const TraceAnswer answer = Trace(*own, RequestOf(picked));
        ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
        for (const auto& [number, tensor] : answer.tensors) {
          const Lone& lone = *picked[std::stoi(tensor.run())];
          ASSERT_EQ(answer.bytes.at(number),
                    lone.answer.Bytes("0", tensor.label()))
              << tensor.label();
        }
      }
    });
  }
  for (std::thread& client : clients) client.join();
}

TEST_F(TraceTest, WorksOnAfterAClientCancelsHalfWay) {
  v1::TraceRequest request = EveryLayer("demo");
  for (int run = 0; run < 10; ++run) {
    v1::TokenIds& tokens =
        *request.add_runs()->mutable_prompt()->mutable_tokens();
    for (int i = 0; i < 400; ++i) tokens.add_ids(i);
  }
  grpc::ClientContext context;
  const auto reader = stub().Trace(&context, request);
  v1::TraceResponse response;
  while (reader->Read(&response) && !response.has_chunk()) {
  }
  EXPECT_TRUE(response.has_chunk());
  context.TryCancel();
  bool summary = false;
  while (reader->Read(&response)) summary |= response.has_summary();
  EXPECT_FALSE(summary);
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  ExpectWorks();
}

TEST_F(TraceTest, WorksOnAfterADeadline) {
  v1::TraceRequest request = EveryLayer("demo");
  for (int run = 0; run < 10; ++run) {
    v1::TokenIds& tokens =
        *request.add_runs()->mutable_prompt()->mutable_tokens();
    // No two begin alike, or they would share their work and be done in time.
    for (int i = 0; i < 500; ++i) tokens.add_ids((i + 31 * run) % 500);
  }
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::milliseconds(20));
  const auto reader = stub().Trace(&context, request);
  v1::TraceResponse response;
  while (reader->Read(&response)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  ExpectWorks();
}

TEST_F(TraceTest, TokenizesAndDetokenizes) {
  grpc::ClientContext context;
  v1::TokenizeRequest request;
  request.set_model("demo");
  request.set_text("When Mary and John went to the store");
  v1::TokenizeResponse response;
  ASSERT_TRUE(stub().Tokenize(&context, request, &response).ok());
  EXPECT_EQ(response.rendered(), request.text());
  ASSERT_GT(response.ids_size(), 3);
  EXPECT_EQ(response.texts_size(), response.ids_size());

  grpc::ClientContext back_context;
  v1::DetokenizeRequest back;
  back.set_model("demo");
  *back.mutable_ids() = response.ids();
  v1::DetokenizeResponse text;
  ASSERT_TRUE(stub().Detokenize(&back_context, back, &text).ok());
  EXPECT_EQ(text.text(), request.text());
  EXPECT_EQ(text.texts_size(), response.ids_size());
}

TEST_F(TraceTest, DescribesItsModels) {
  grpc::ClientContext list_context;
  v1::ListModelsResponse list;
  ASSERT_TRUE(stub().ListModels(&list_context, {}, &list).ok());
  ASSERT_EQ(list.models_size(), 2);
  EXPECT_EQ(list.models(0).name(), "demo");
  EXPECT_TRUE(list.models(0).has_tokenizer());
  EXPECT_FALSE(list.models(1).has_tokenizer());
  EXPECT_EQ(list.models(0).weight_bytes(),
            2 * list.models(0).parameter_count());

  grpc::ClientContext context;
  v1::GetModelRequest request;
  request.set_model("tiny");
  v1::GetModelResponse response;
  ASSERT_TRUE(stub().GetModel(&context, request, &response).ok());
  EXPECT_EQ(response.model().summary().config().dtype(), v1::DATA_TYPE_F32);
  EXPECT_THAT(response.model().row_rule(), Not(IsEmpty()));
  EXPECT_THAT(response.model().printout(), ::testing::HasSubstr("layers"));
}

}  // namespace
}  // namespace phitap
