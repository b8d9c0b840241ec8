#include "tests/unit/client/served_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "client/cpp/float_values.h"
#include "tests/support/status_matchers.h"

namespace phitap::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

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
  request.set_text(kServedPrompt);
  const absl::StatusOr<v1::TokenizeResponse> tokens =
      client_->Tokenize(request);
  ASSERT_THAT(tokens, IsOk());
  v1::DetokenizeRequest back;
  *back.mutable_ids() = tokens->ids();
  const absl::StatusOr<v1::DetokenizeResponse> text = client_->Detokenize(back);
  ASSERT_THAT(text, IsOk());
  EXPECT_EQ(text->text(), kServedPrompt);
  EXPECT_THAT(text->texts(), testing::ElementsAreArray(tokens->texts()));
}

TEST_F(ServedClient, ReadsTheResidualStreamFromBlockToBlock) {
  const absl::StatusOr<phitap::client::Trace> trace =
      Trace({.runs = {TextRun(kServedPrompt)},
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
      .runs = {TextRun("Mary", "short"), TextRun(kServedPrompt, "long")},
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
      {.runs = {TextRun(kServedPrompt)},
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
      {.runs = {TextRun(kServedPrompt), TokensRun({5, 6})},
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
