#include "client/cpp/program.h"

#include "tests/unit/client/proto_matchers.h"

namespace phitap::client {
namespace {

v1::Node Made(Operation operation) {
  return ToMessage(
      Node{.name = "n", .inputs = {"a"}, .operation = std::move(operation)});
}

// A node `n` of input `a` with this operation.
std::string NodeText(const std::string& operation) {
  return "name: 'n' inputs: 'a' " + operation;
}

TEST(Program, WritesEverySource) {
  EXPECT_THAT(Made(OfRun{.run = "r", .hook_point = "x"}),
              EqualsProto(NodeText("read { run: 'r' hook_point: 'x' }")));
  EXPECT_THAT(Made(Kept{"v"}), EqualsProto(NodeText("tensor_name: 'v'")));
  EXPECT_THAT(Made(Constant{"c"}), EqualsProto(NodeText("constant: 'c'")));
  EXPECT_THAT(Made(0.5), EqualsProto(NodeText("number: 0.5")));
  EXPECT_THAT(Made(NoiseLike{.like = {.run = "r"}, .seed = 3}),
              EqualsProto(NodeText("noise { like { run: 'r' } seed: 3 }")));
  EXPECT_THAT(Made(GradientOf{.of = "m", .with_respect_to = {.run = "r"}}),
              EqualsProto(NodeText(
                  "gradient { of: 'm' with_respect_to { run: 'r' } }")));
}

TEST(Program, WritesEveryOperation) {
  const std::vector<std::pair<Operation, std::string>> operations = {
      {v1::FUNCTION_TANH, "function: FUNCTION_TANH"},
      {Linear{}, "linear {}"},
      {Dot{}, "dot {}"},
      {ReduceTo{.kind = v1::REDUCE_KIND_NORM, .dimensions = {-1}, .keep = true},
       "reduce { kind: REDUCE_KIND_NORM dimensions: -1 keep: true }"},
      {Softmax{.log = true}, "softmax { log: true }"},
      {Clamp{.low = 0, .high = 1}, "clamp { low: 0 high: 1 }"},
      {TopKOf{.k = 3, .indices = true}, "top_k { k: 3 indices: true }"},
      {Gather{.dimension = 1, .indices = Indices({2})},
       "gather { dimension: 1 indices { indices: 2 } }"},
      {Gather{.dimension = 1}, "gather { dimension: 1 }"},
      {Scatter{.dimension = 0, .indices = Indices({2})},
       "scatter { indices { indices: 2 } }"},
      {Reshape{.shape = {2, -1}}, "reshape { shape: 2 shape: -1 }"},
      {Permute{.dimensions = {1, 0}}, "permute { dimensions: [ 1, 0 ] }"},
      {Concatenate{.dimension = -1}, "concatenate { dimension: -1 }"},
      {Unembed{.skip_final_norm = true}, "unembed { skip_final_norm: true }"},
      {Encode{.dictionary = {.name = "d"}},
       "encode { dictionary { name: 'd' } "
       "}"},
      {Decode{.dictionary = {.name = "d"}},
       "decode { dictionary { name: 'd' } "
       "}"},
      {Latch{}, "latch {}"},
      {Round{.dtype = v1::DATA_TYPE_BF16}, "round { dtype: DATA_TYPE_BF16 }"},
      {Metric{.kind = Probability{.token_id = 4, .log = true}, .position = -2},
       "metric { position: -2 probability { token_id: 4 log: true } }"},
      {Metric{.kind = LogitDifference{.token_id = 4, .baseline_token_id = 5}},
       "metric { logit_difference { token_id: 4 baseline_token_id: 5 } }"},
      {Metric{.kind = OfNode{"m"}}, "metric { node: 'm' }"},
  };
  for (const auto& [operation, text] : operations) {
    EXPECT_THAT(Made(operation), EqualsProto(NodeText(text)));
  }
}

}  // namespace
}  // namespace phitap::client
