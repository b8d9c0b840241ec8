#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <memory>

#include "absl/strings/str_cat.h"
#include "client/cpp/client.h"
#include "client/cpp/float_values.h"
#include "tests/support/server_process.h"
#include "tests/support/status_matchers.h"

namespace phitap::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kPrompt[] =
    "When Mary and John went to the store, John gave a drink to";

class ServedClient : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    server_ = new ServerProcess({"--model", "demo=" DEMO_MODEL});
  }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
  }

  void SetUp() override {
    absl::StatusOr<Client> client =
        Client::Connect({.address = server_->AwaitAddress()});
    ASSERT_THAT(client, IsOk()) << server_->Output();
    client_ = std::make_unique<Client>(*std::move(client));
  }

  absl::StatusOr<phitap::client::Trace> Trace(const TraceCall& call) {
    return client_->Trace(ToRequest(call));
  }

  static ServerProcess* server_;
  std::unique_ptr<Client> client_;
};

ServerProcess* ServedClient::server_ = nullptr;

bool SameBytes(const HostTensor& a, const HostTensor& b) {
  return a.dtype == b.dtype && a.shape == b.shape &&
         std::memcmp(a.bytes.data(), b.bytes.data(), a.bytes.size()) == 0;
}

TEST_F(ServedClient, DescribesTheModel) {
  const absl::StatusOr<std::vector<v1::ModelSummary>> models =
      client_->ListModels();
  ASSERT_THAT(models, IsOk());
  ASSERT_EQ(models->size(), 1);
  EXPECT_EQ(models->front().name(), "demo");
  const absl::StatusOr<v1::Model> model = client_->GetModel("demo");
  ASSERT_THAT(model, IsOk());
  EXPECT_EQ(model->hook_points_size(), 33);
  EXPECT_EQ(model->summary().weights_digest(),
            models->front().weights_digest());
}

TEST_F(ServedClient, TurnsTextIntoTokensAndBack) {
  v1::TokenizeRequest request;
  request.set_text(kPrompt);
  const absl::StatusOr<v1::TokenizeResponse> tokens =
      client_->Tokenize(request);
  ASSERT_THAT(tokens, IsOk());
  v1::DetokenizeRequest back;
  *back.mutable_ids() = tokens->ids();
  const absl::StatusOr<v1::DetokenizeResponse> text = client_->Detokenize(back);
  ASSERT_THAT(text, IsOk());
  EXPECT_EQ(text->text(), kPrompt);
  EXPECT_THAT(text->texts(), testing::ElementsAreArray(tokens->texts()));
}

TEST_F(ServedClient, ReadsTheResidualStreamFromBlockToBlock) {
  const absl::StatusOr<phitap::client::Trace> trace =
      Trace({.runs = {TextRun(kPrompt)},
             .captures = {{.hook_points = "layers.*.layer_output"},
                          {.hook_points = "layers.1.layer_input"}}});
  ASSERT_THAT(trace, IsOk());
  const auto before = trace->Find({.label = "layers.0.layer_output"});
  const auto after = trace->Find({.label = "layers.1.layer_input"});
  ASSERT_THAT(before, IsOk());
  ASSERT_THAT(after, IsOk());
  EXPECT_TRUE(SameBytes((*before)->value, (*after)->value));
  EXPECT_EQ((*before)->value.shape[0],
            static_cast<int64_t>(trace->runs[0].ids.size()));
}

TEST_F(ServedClient, ReceivesTensorsOfManyChunks) {
  // 500 × 1232 float32 logits: three chunks.
  const std::vector<int32_t> ids(500, 7);
  const absl::StatusOr<phitap::client::Trace> trace =
      Trace({.runs = {TokensRun(ids)},
             .captures = {{.hook_points = "logits", .dtype = v1::DATA_TYPE_F32},
                          {.hook_points = "layers.*.mlp_gate_up"}}});
  ASSERT_THAT(trace, IsOk());
  EXPECT_GT(trace->tensors.front().value.bytes.size(), 2u << 20);
  EXPECT_EQ(trace->summary.size_bytes(), trace->header.size_bytes());
}

TEST_F(ServedClient, GivesARunAmongOthersTheBitsOfTheRunAlone) {
  const TraceCall together = {
      .runs = {TextRun("Mary", "short"), TextRun(kPrompt, "long")},
      .captures = {{.hook_points = "logits"}}};
  TraceCall alone = together;
  alone.runs.erase(alone.runs.begin());
  const absl::StatusOr<phitap::client::Trace> both = Trace(together);
  const absl::StatusOr<phitap::client::Trace> one = Trace(alone);
  ASSERT_THAT(both, IsOk());
  ASSERT_THAT(one, IsOk());
  const auto shared = both->Find({.run = "long"});
  ASSERT_THAT(shared, IsOk());
  EXPECT_TRUE(SameBytes((*shared)->value, one->tensors.front().value));
}

TEST_F(ServedClient, ReadsASelectionInItsOrder) {
  const absl::StatusOr<phitap::client::Trace> trace =
      Trace({.runs = {TokensRun({5, 6, 7, 8})},
             .captures = {{.hook_points = "logits", .label = "all"},
                          {.hook_points = "logits",
                           .label = "some",
                           .selection = {.positions = Indices({-1, 1}),
                                         .features = IndicesFrom(10, 13)}}}});
  ASSERT_THAT(trace, IsOk());
  const HostTensor& all = (*trace->Find({.label = "all"}))->value;
  const HostTensor& some = (*trace->Find({.label = "some"}))->value;
  EXPECT_THAT(some.shape, ElementsAre(2, 3));
  const int64_t vocabulary = all.shape[1];
  for (int64_t column = 0; column < 3; ++column) {
    EXPECT_EQ(ElementAt(some, column),
              ElementAt(all, 3 * vocabulary + 10 + column));
    EXPECT_EQ(ElementAt(some, 3 + column),
              ElementAt(all, 1 * vocabulary + 10 + column));
  }
}

TEST_F(ServedClient, ReducesOnTheServer) {
  const absl::StatusOr<phitap::client::Trace> trace = Trace(
      {.runs = {TextRun(kPrompt)},
       .captures = {
           {.hook_points = "layers.0.layer_output", .label = "whole"},
           {.hook_points = "layers.0.layer_output",
            .label = "norm",
            .reduce = LastDimensionNorm{}},
           {.hook_points = "layers.-1.layer_output",
            .label = "lens",
            .selection = {.positions = Indices({-1})},
            .reduce = Lens{.k = 1}},
           {.hook_points = "next_token_probs", .reduce = Largest{.k = 1}}}});
  ASSERT_THAT(trace, IsOk());
  const HostTensor& whole = (*trace->Find({.label = "whole"}))->value;
  const HostTensor& norm = (*trace->Find({.label = "norm"}))->value;
  double squares = 0;
  for (const double value : ElementsAt(whole, 0, whole.shape[1])) {
    squares += value * value;
  }
  EXPECT_NEAR(ElementAt(norm, 0), std::sqrt(squares), 1e-3);
  // The lens on the last layer sees what the model says.
  EXPECT_EQ(
      ElementAt((*trace->Find({.label = "lens", .part = "indices"}))->value, 0),
      ElementAt((*trace->Find({.label = "next_token_probs", .part = "indices"}))
                    ->value,
                0));
}

TEST_F(ServedClient, PlansWhatATraceGives) {
  const v1::TraceRequest request = ToRequest(
      {.runs = {TextRun(kPrompt), TokensRun({5, 6})},
       .captures = {{.hook_points = "layers.*.attention_probabilities"},
                    {.hook_points = "logits", .reduce = Largest{.k = 3}}}});
  const absl::StatusOr<v1::PlanTraceResponse> plan =
      client_->PlanTrace(request);
  const absl::StatusOr<phitap::client::Trace> trace = client_->Trace(request);
  ASSERT_THAT(plan, IsOk());
  ASSERT_THAT(trace, IsOk());
  ASSERT_EQ(static_cast<size_t>(plan->tensors_size()), trace->tensors.size());
  for (int i = 0; i < plan->tensors_size(); ++i) {
    EXPECT_EQ(
        plan->tensors(i).SerializeAsString(),
        trace->tensors[static_cast<size_t>(i)].descriptor.SerializeAsString());
  }
  EXPECT_EQ(plan->size_bytes(), trace->summary.size_bytes());
}

constexpr char kCorrupt[] =
    "When Mary and John went to the store, Mary gave a drink to";
constexpr int32_t kMary = 578;
constexpr int32_t kJohn = 584;

TEST_F(ServedClient, PatchesOverAGrid) {
  const LogitDifference difference = {.token_id = kMary,
                                      .baseline_token_id = kJohn};
  const absl::StatusOr<phitap::client::Trace> trace = Trace(
      {.runs = {TextRun(kPrompt, "clean"), TextRun(kCorrupt, "corrupt")},
       .captures = {{.node = "clean"}, {.node = "corrupt"}},
       .program = {{.name = "clean",
                    .operation = Metric{.kind = difference, .run = "clean"}},
                   {.name = "corrupt",
                    .operation = Metric{.kind = difference, .run = "corrupt"}}},
       .sweeps = {{.run = "corrupt",
                   .edits = {{.hook_points = "layers.*.layer_input",
                              .change = Set{OfRun{.run = "clean"}}}},
                   .axes = {OverLayers{}, OverPositions{}},
                   .metrics = {{.kind = difference, .label = "m"}}}}});
  ASSERT_THAT(trace, IsOk());
  const HostTensor& grid = (*trace->Find({.part = "m"}))->value;
  EXPECT_THAT(grid.shape, ElementsAre(6, 14));
  const double clean = ElementAt((*trace->Find({.label = "clean"}))->value, 0);
  const double corrupt =
      ElementAt((*trace->Find({.label = "corrupt"}))->value, 0);
  EXPECT_GT(clean, 0);
  EXPECT_LT(corrupt, 0);
  // The prompts differ in one token: with its embedding the run is the other.
  EXPECT_EQ(ElementAt(grid, 9), clean);
  // What both prompts share up to a token is the same.
  EXPECT_EQ(ElementAt(grid, 5 * 14 + 8), corrupt);
}

TEST_F(ServedClient, GeneratesAndTellsOfTokensAsTheyCome) {
  const v1::TraceRequest request = ToRequest(
      {.runs = {Generating(TextRun(kPrompt, "plain"), {.max_tokens = 3}),
                Generating(Edited(TextRun(kPrompt, "edited"),
                                  {{.hook_points = "layers.*.layer_output",
                                    .change = Set{0.0}}}),
                           {.max_tokens = 3, .ignore_stop_ids = true})},
       .captures = {
           {.hook_points = "layers.5.layer_output", .runs = {"edited"}}}});
  std::map<std::string, std::vector<int32_t>> told;
  const absl::StatusOr<phitap::client::Trace> trace = client_->Trace(
      request, {}, {.on_token = [&told](const v1::GeneratedToken& token) {
        told[token.run()].push_back(token.id());
      }});
  ASSERT_THAT(trace, IsOk());
  ASSERT_EQ(told["edited"].size(), 3);
  EXPECT_EQ(told["plain"].front(), kMary);
  for (const TracedRun& run : trace->runs) {
    ASSERT_EQ(run.generated.size(), told[run.label].size());
    EXPECT_EQ(run.generated.back().id, told[run.label].back());
  }
  EXPECT_EQ(GeneratedText(trace->runs[0]).substr(0, 5), " Mary");
  // The prompt and two tokens that go through the model.
  ASSERT_EQ(trace->tensors.size(), 3);
  for (int32_t step = 0; step < 3; ++step) {
    const auto value = trace->Find({.run = "edited", .step = step});
    ASSERT_THAT(value, IsOk());
    EXPECT_EQ(ElementAt((*value)->value, 0), 0);
  }
}

TEST_F(ServedClient, KeepsTensorsForLaterRequests) {
  const std::vector<float> values(192, 0.25);
  const HostTensor tensor = CopyOf(
      DType::kF32, {192},
      {reinterpret_cast<const std::byte*>(values.data()), 192 * sizeof(float)});
  ASSERT_THAT(client_->PutTensor("mine/quarter", tensor), IsOk());
  const absl::StatusOr<v1::ListTensorsResponse> listed =
      client_->ListTensors("mine/");
  ASSERT_THAT(listed, IsOk());
  ASSERT_EQ(listed->tensors_size(), 1);
  EXPECT_EQ(listed->tensors(0).size_bytes(), 768);
  // A capture that is kept is not sent.
  const absl::StatusOr<phitap::client::Trace> trace =
      Trace({.runs = {Edited(TokensRun({5, 6}),
                             {{.hook_points = "layers.2.layer_output",
                               .selection = {.positions = Indices({-1})},
                               .change = Set{Kept{"mine/quarter"}}}})},
             .captures = {{.hook_points = "layers.2.layer_output",
                           .label = "kept",
                           .keep_as = "mine/kept"},
                          {.hook_points = "layers.2.layer_output",
                           .label = "sent",
                           .selection = {.positions = Indices({-1})}}}});
  ASSERT_THAT(trace, IsOk());
  ASSERT_EQ(trace->tensors.size(), 1);
  EXPECT_THAT(ElementsAt(trace->tensors[0].value, 0, 192), testing::Each(0.25));
  EXPECT_EQ(client_->ListTensors("mine/")->tensors_size(), 2);
  EXPECT_THAT(client_->DeleteTensor("mine/kept"), IsOk());
  EXPECT_THAT(client_->DeleteTensor("mine/quarter"), IsOk());
  EXPECT_THAT(client_->DeleteTensor("mine/kept"),
              StatusIs(absl::StatusCode::kNotFound, testing::_));
}

TEST_F(ServedClient, GoesOnAfterARefusal) {
  EXPECT_THAT(Trace({.runs = {TokensRun({5})},
                     .captures = {{.hook_points = "layers.9.layer_output"}}}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("captures[0].hook_points")));
  EXPECT_THAT(Trace({.model = "other",
                     .runs = {TokensRun({5})},
                     .captures = {{.hook_points = "logits"}}}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("demo")));
  EXPECT_THAT(Trace({.runs = {TokensRun({5})},
                     .captures = {{.hook_points = "logits"}}}),
              IsOk());
}

}  // namespace
}  // namespace phitap::client
