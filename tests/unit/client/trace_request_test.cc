#include "client/cpp/trace_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/client/proto_matchers.h"

namespace phitap::client {
namespace {

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

TEST(ToRequest, WritesWhatIsComputedBesides) {
  const std::vector<float> ones = {1, 1};
  TraceCall call = {
      .runs = {Generating(Edited(TokensRun({1}, "a"),
                                 {{.hook_points = "layers.0.mlp_output",
                                   .change = Set{0.0}}}),
                          {.max_tokens = 3, .top_p = 0.5, .stop_ids = {7}}),
               SameRun("a", "b")},
      .constants =
          {{"v", CopyOf(DType::kF32, {2},
                        {reinterpret_cast<const std::byte*>(ones.data()), 8})}},
      .program = {{.name = "n", .operation = 2.0}},
      .gradients = {{.of = {.kind = Logit{.token_id = 5}, .run = "a"},
                     .hook_points = "logits"}},
      .sweeps = {{.run = "a",
                  .edits = {{.hook_points = "layers.*.layer_output",
                             .change = Set{OfRun{.run = "b"}}}},
                  .axes = {OverLayers{.window = 2},
                           OverPositions{.positions = Indices({-1})}},
                  .metrics = {{.kind = KlFromRun{.run = "b"}}}}}};
  EXPECT_THAT(ToRequest(call), EqualsProto(R"pb(
                runs {
                  label: "a"
                  prompt { tokens { ids: 1 } }
                  interventions {
                    hook_points: "layers.0.mlp_output"
                    set { value { number: 0 } }
                  }
                  generation { max_tokens: 3 top_p: 0.5 stop_ids: 7 }
                }
                runs {
                  label: "b"
                  prompt { same_as: "a" }
                }
                options {}
                constants {
                  key: "v"
                  value {
                    dtype: DATA_TYPE_F32
                    shape: 2
                    data: "\000\000\200\077\000\000\200\077"
                  }
                }
                program { nodes { name: "n" number: 2 } }
                gradients {
                  of {
                    run: "a"
                    logit { token_id: 5 }
                  }
                  hook_points: "logits"
                }
                sweeps {
                  run: "a"
                  interventions {
                    hook_points: "layers.*.layer_output"
                    set { value { run { run: "b" } } }
                  }
                  axes { layers { window: 2 } }
                  axes { positions { positions { indices: -1 } } }
                  metrics { kl { from_run: "b" } }
                }
              )pb"));
}

TEST(ToCapture, WritesWhenAndWhereItIsReadAndKept) {
  EXPECT_THAT(ToCapture({.hook_points = "x",
                         .selection = {.steps = IndicesFrom(0, 3)},
                         .read_time = v1::READ_TIME_BEFORE,
                         .keep_as = "mine"}),
              EqualsProto(R"pb(
                hook_points: "x"
                selection { steps { ranges { start: 0 stop: 3 } } }
                read_time: READ_TIME_BEFORE
                tensor_name: "mine"
              )pb"));
  EXPECT_THAT(ToCapture({.node = "n"}), EqualsProto("node: 'n'"));
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
