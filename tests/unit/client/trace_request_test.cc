#include "client/cpp/trace_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "google/protobuf/text_format.h"
#include "google/protobuf/util/message_differencer.h"

namespace phitap::client {
namespace {

template <typename Message>
Message Parsed(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message));
  return message;
}

MATCHER_P(EqualsProto, text, "") {
  const auto expected = Parsed<std::decay_t<decltype(arg)>>(text);
  *result_listener << arg.DebugString();
  return google::protobuf::util::MessageDifferencer::Equals(arg, expected);
}

TEST(ToRequest, WritesEveryChoice) {
  TraceCall call = {.model = "demo",
                    .runs = {TextRun("Hi", "a"), TokensRun({1, 2})},
                    .captures = {{.hook_points = "logits"}}};
  call.options.set_isolate(true);
  EXPECT_THAT(ToRequest(call), EqualsProto(R"pb(
                model: "demo"
                runs {
                  label: "a"
                  prompt { text: "Hi" }
                }
                runs { prompt { tokens { ids: [ 1, 2 ] } } }
                captures { hook_points: "logits" }
                options { isolate: true }
              )pb"));
}

TEST(ToCapture, LeavesOutASelectionOfEverything) {
  EXPECT_FALSE(ToCapture({.hook_points = "logits"}).has_selection());
}

TEST(ToCapture, KeepsASelectionOfNothing) {
  EXPECT_TRUE(ToCapture({.hook_points = "logits",
                         .selection = {.positions = v1::IndexSet()}})
                  .selection()
                  .has_positions());
}

TEST(ToCapture, WritesSelections) {
  EXPECT_THAT(ToCapture({.hook_points = "x",
                         .label = "name",
                         .runs = {"a"},
                         .selection = {.positions = Indices({-1}),
                                       .heads = IndicesFrom(0, 2)},
                         .dtype = v1::DATA_TYPE_F32}),
              EqualsProto(R"pb(
                label: "name"
                hook_points: "x"
                runs: "a"
                selection {
                  positions { indices: -1 }
                  heads { ranges { start: 0 stop: 2 } }
                }
                dtype: DATA_TYPE_F32
              )pb"));
}

TEST(ToCapture, WritesEveryReduction) {
  EXPECT_THAT(
      ToCapture({.hook_points = "x", .reduce = PositionMean{}}),
      EqualsProto("hook_points: 'x' reduction { mean_over_positions {} }"));
  EXPECT_THAT(ToCapture({.hook_points = "x", .reduce = LastDimensionNorm{}}),
              EqualsProto("hook_points: 'x' reduction { norm {} }"));
  EXPECT_THAT(ToCapture({.hook_points = "x", .reduce = Largest{.k = 3}}),
              EqualsProto("hook_points: 'x' reduction { top_k { k: 3 } }"));
  EXPECT_THAT(
      ToCapture(
          {.hook_points = "x",
           .reduce = Lens{.k = 2, .token_ids = {5}, .value_is_normed = true}}),
      EqualsProto("hook_points: 'x' reduction { logit_lens { k: 2 token_ids: 5 "
                  "apply_final_norm: false } }"));
}

}  // namespace
}  // namespace phitap::client
