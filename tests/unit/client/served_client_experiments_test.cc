#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "client/cpp/float_values.h"
#include "tests/unit/client/served_client.h"

namespace phitap::client {
namespace {

using testing::ElementsAre;

using ServedClientExperiments = ServedClient;

constexpr char kCorrupt[] =
    "When Mary and John went to the store, Mary gave a drink to";
constexpr int32_t kMary = 578;
constexpr int32_t kJohn = 584;

TEST_F(ServedClientExperiments, PatchesOverAGrid) {
  const LogitDifference difference = {.token_id = kMary,
                                      .baseline_token_id = kJohn};
  const absl::StatusOr<phitap::client::Trace> trace = Trace(
      {.runs = {TextRun(kServedPrompt, "clean"), TextRun(kCorrupt, "corrupt")},
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

TEST_F(ServedClientExperiments, GeneratesAndTellsOfTokensAsTheyCome) {
  const v1::TraceRequest request = ToRequest(
      {.runs = {Generating(TextRun(kServedPrompt, "plain"), {.max_tokens = 3}),
                Generating(Edited(TextRun(kServedPrompt, "edited"),
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

TEST_F(ServedClientExperiments, KeepsTensorsForLaterRequests) {
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

}  // namespace
}  // namespace phitap::client
