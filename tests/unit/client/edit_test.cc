#include "client/cpp/edit.h"

#include "tests/unit/client/proto_matchers.h"

namespace phitap::client {
namespace {

v1::Intervention Made(Change change) {
  return ToMessage({.hook_points = "x", .change = std::move(change)});
}

TEST(Edit, WritesWhereAndWhen) {
  EXPECT_THAT(ToMessage({.hook_points = "layers.2.layer_output",
                         .selection = {.positions = Indices({-1})},
                         .change = Skip{},
                         .when = "gate"}),
              EqualsProto(R"pb(
                hook_points: "layers.2.layer_output"
                selection { positions { indices: -1 } }
                when: "gate"
                skip {}
              )pb"));
}

TEST(Edit, WritesEverySource) {
  EXPECT_THAT(ToMessage(Source(0.5)), EqualsProto("number: 0.5"));
  EXPECT_THAT(ToMessage(Source(OfRun{.run = "a",
                                     .hook_point = "y",
                                     .selection = {.heads = Indices({1})},
                                     .read_time = v1::READ_TIME_BEFORE})),
              EqualsProto("run { run: 'a' hook_point: 'y' selection { heads { "
                          "indices: 1 } } read_time: READ_TIME_BEFORE }"));
  EXPECT_THAT(
      ToMessage(Source(MeanOfRuns{.runs = {"a", "b"}, .over_positions = true})),
      EqualsProto("mean_of_runs { runs: 'a' runs: 'b' over_positions: true }"));
  EXPECT_THAT(ToMessage(Source(Kept{.name = "v"})),
              EqualsProto("tensor_name: 'v'"));
  EXPECT_THAT(ToMessage(Source(Constant{.name = "c"})),
              EqualsProto("constant: 'c'"));
  EXPECT_THAT(ToMessage(Source(OfNode{.name = "n"})), EqualsProto("node: 'n'"));
  const std::byte truth{1};
  EXPECT_THAT(ToMessage(Source(CopyOf(DType::kBool, {1}, {&truth, 1}))),
              EqualsProto("tensor { dtype: DATA_TYPE_BOOL shape: 1 data: "
                          "'\\001' }"));
}

TEST(Edit, WritesEveryChange) {
  EXPECT_THAT(Made(Set{.value = Kept{.name = "v"}}),
              EqualsProto("hook_points: 'x' set { value { tensor_name: 'v' } "
                          "}"));
  EXPECT_THAT(Made(Add{.value = 1.0}),
              EqualsProto("hook_points: 'x' add { value { number: 1 } }"));
  EXPECT_THAT(
      Made(Add{.value = 1.0, .scale = -2}),
      EqualsProto("hook_points: 'x' add { value { number: 1 } scale: -2 }"));
  EXPECT_THAT(Made(Scale{.factor = 3.0}),
              EqualsProto("hook_points: 'x' scale { value { number: 3 } }"));
  EXPECT_THAT(Made(ProjectOut{.direction = OfNode{.name = "d"}, .keep = 0.5}),
              EqualsProto("hook_points: 'x' project_out { direction { node: "
                          "'d' } keep: 0.5 }"));
  EXPECT_THAT(
      Made(ClampProjection{.direction = OfNode{.name = "d"}, .high = 0}),
      EqualsProto("hook_points: 'x' clamp_projection { direction { "
                  "node: 'd' } high: 0 }"));
  EXPECT_THAT(
      Made(Swap{.from = Kept{"a"}, .to = Kept{"b"}, .both = true}),
      EqualsProto("hook_points: 'x' swap { from { tensor_name: 'a' } to { "
                  "tensor_name: 'b' } both: true }"));
  EXPECT_THAT(Made(Clamp{.low = -1}),
              EqualsProto("hook_points: 'x' clamp { low: -1 }"));
  EXPECT_THAT(Made(Noise{.scale = 0.1, .seed = 7}),
              EqualsProto("hook_points: 'x' noise { scale: 0.1 seed: 7 }"));
  EXPECT_THAT(Made(Knockout{}), EqualsProto("hook_points: 'x' knockout {}"));
  EXPECT_THAT(Made(Skip{}), EqualsProto("hook_points: 'x' skip {}"));
  EXPECT_THAT(
      Made(Subspace{
          .basis = Kept{"r"}, .source = OfRun{.run = "a"}, .mask = Kept{"m"}}),
      EqualsProto("hook_points: 'x' subspace { basis { tensor_name: 'r' } "
                  "source { run { run: 'a' } } mask { tensor_name: 'm' } }"));
}

TEST(Edit, WritesFeaturesOfADictionary) {
  EXPECT_THAT(
      Made(EditFeatures{
          .dictionary = {.name = "sae",
                         .activation = v1::DICTIONARY_ACTIVATION_TOP_K,
                         .k = 8,
                         .subtract_decoder_bias = true},
          .changes = {{.feature = 1, .change = SetFeature{.value = 4}},
                      {.feature = 2, .change = ScaleFeature{.factor = 0}},
                      {.feature = 3, .change = AddToFeature{.value = -1}},
                      {.feature = 4, .change = FeatureOfRun{.run = "a"}}},
          .drop_error = true,
          .encode_hook = "mlp_input"}),
      EqualsProto(R"pb(
        hook_points: "x"
        dictionary {
          dictionary {
            name: "sae"
            activation: DICTIONARY_ACTIVATION_TOP_K
            k: 8
            subtract_decoder_bias: true
          }
          edits { feature: 1 set: 4 }
          edits { feature: 2 scale: 0 }
          edits { feature: 3 add: -1 }
          edits { feature: 4 from_run: "a" }
          drop_error: true
          encode_hook: "mlp_input"
        }
      )pb"));
}

}  // namespace
}  // namespace phitap::client
