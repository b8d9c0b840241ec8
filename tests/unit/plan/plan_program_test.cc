#include "server/plan/program/plan_program.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>
#include <variant>

#include "tests/support/status_matchers.h"
#include "tests/unit/plan/programming.h"

namespace phitap {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Program(const std::string& nodes) {
  return absl::StrCat(kTwoRuns, "program {", nodes, "}");
}

// x [5, 24] of run a.
constexpr char kX[] =
    "nodes { name: 'x' read { run: 'a' hook_point: 'layers.1.layer_output' } }";

TEST(PlanProgram, TakesNodesInAnyOrder) {
  PlannedRuns runs(Program(absl::StrCat(
      "nodes { name: 'z' inputs: ['y', 'x'] function: FUNCTION_ADD }",
      "nodes { name: 'y' inputs: 'x' function: FUNCTION_EXP }", kX)));
  const auto nodes = PlanProgram(runs.parts);
  ASSERT_THAT(nodes, IsOk());
  const int z = *nodes->Find("z", "");
  EXPECT_EQ(runs.builder.ShapeOf(z), (Shape{5, 24}));
  EXPECT_EQ(runs.plan.nodes[z].inputs,
            (std::vector{*nodes->Find("y", ""), *nodes->Find("x", "")}));
  EXPECT_EQ(runs.plan.nodes[z].field, "program.nodes[0]");
}

TEST(PlanProgram, ResolvesReads) {
  PlannedRuns runs(Program(
      "nodes { name: 'x' read { run: 'b' hook_point: 'layers.-1.layer_input' "
      "  read_time: READ_TIME_BEFORE selection { positions { indices: -1 } "
      "  features { ranges { stop: 4 } } steps { indices: 0 } } } }"));
  const auto nodes = PlanProgram(runs.parts);
  ASSERT_THAT(nodes, IsOk());
  const auto& read =
      std::get<RunRead>(runs.plan.nodes[*nodes->Find("x", "")].operation);
  EXPECT_EQ(read.run, 1);
  EXPECT_EQ(read.point, (HookPoint{Hook::kLayerInput, 3}));
  EXPECT_EQ(read.read_at, (HookPoint{Hook::kLayerOutput, 2}));
  EXPECT_EQ(read.time, ReadTime::kBefore);
  EXPECT_EQ(read.selection.positions, std::vector<int64_t>{2});
  EXPECT_EQ(read.selection.features, (std::vector<int64_t>{0, 1, 2, 3}));
}

TEST(PlanProgram, TakesEveryOperation) {
  PlanContext context = TinyContext();
  context.find_tensor = Keeping({{"v", {24}},
                                 {"d.encoder_weight", {30, 24}},
                                 {"d.threshold", {30}},
                                 {"d.decoder_weight", {30, 24}},
                                 {"d.decoder_bias", {24}}});
  PlannedRuns runs(
      absl::StrCat(
          kTwoRuns,
          "constants { key: 'c' value { dtype: DATA_TYPE_I32 shape: 1 "
          "  data: '\\x07\\x00\\x00\\x00' } }"
          "program {",
          kX,
          "nodes { name: 't' tensor { dtype: DATA_TYPE_BF16 data: '\\x80\\x3f' "
          "  } }"
          "nodes { name: 'v' tensor_name: 'v' }"
          "nodes { name: 'c' constant: 'c' }"
          "nodes { name: 'n' number: 2.5 }"
          "nodes { name: 'noise' noise { seed: 3 like { run: 'b' "
          "  hook_point: 'layers.0.mlp_output' } } }"
          "nodes { name: 'm' metric { run: 'a' logit { token_id: 3 } } }"
          "nodes { name: 'g' gradient { of: 'm' with_respect_to { run: 'a' "
          "  hook_point: 'layers.1.layer_output' } } }"
          "nodes { name: 'add' inputs: ['x', 'v'] function: FUNCTION_ADD }"
          "nodes { name: 'w' inputs: 'x' permute { dimensions: [1, 0] } }"
          "nodes { name: 'lin' inputs: ['x', 'x'] linear {} }"
          "nodes { name: 'dot' inputs: ['x', 'v'] dot {} }"
          "nodes { name: 'sum' inputs: 'x' reduce { kind: REDUCE_KIND_SUM "
          "  dimensions: -1 keep: true } }"
          "nodes { name: 'soft' inputs: 'x' softmax { log: true } }"
          "nodes { name: 'clamp' inputs: 'x' clamp { low: 0 } }"
          "nodes { name: 'top' inputs: 'x' top_k { k: 4 indices: true } }"
          "nodes { name: 'part' inputs: 'x' gather { dimension: -1 indices { "
          "  indices: [-1, 0] } } }"
          "nodes { name: 'chosen' inputs: ['x', 'c'] gather {} }"
          "nodes { name: 'set' inputs: ['x', 'n'] scatter { dimension: 1 "
          "  indices { ranges { start: -2 } } } }"
          "nodes { name: 'flat' inputs: 'x' reshape { shape: -1 } }"
          "nodes { name: 'cat' inputs: ['x', 'x', 'x'] concatenate {} }"
          "nodes { name: 'logits' inputs: 'x' unembed { skip_final_norm: true "
          "} }"
          "nodes { name: 'f' inputs: 'x' encode { dictionary { name: 'd' } } }"
          "nodes { name: 'y' inputs: 'f' decode { dictionary { name: 'd' } } }"
          "nodes { name: 'r' inputs: 'x' round { dtype: DATA_TYPE_F16 } }"
          "}"),
      context);
  const auto nodes = PlanProgram(runs.parts);
  ASSERT_THAT(nodes, IsOk());
  const std::map<std::string, Shape> kShapes = {
      {"t", {}},         {"v", {24}},         {"c", {1}},
      {"n", {}},         {"noise", {3, 24}},  {"m", {}},
      {"g", {5, 24}},    {"add", {5, 24}},    {"w", {24, 5}},
      {"lin", {5, 5}},   {"dot", {5, 1}},     {"sum", {5, 1}},
      {"soft", {5, 24}}, {"clamp", {5, 24}},  {"top", {5, 4}},
      {"part", {5, 2}},  {"chosen", {1, 24}}, {"set", {5, 24}},
      {"flat", {120}},   {"cat", {15, 24}},   {"logits", {5, 50}},
      {"f", {5, 30}},    {"y", {5, 24}},      {"r", {5, 24}}};
  for (const auto& [name, shape] : kShapes) {
    EXPECT_EQ(runs.builder.ShapeOf(*nodes->Find(name, "")), shape) << name;
  }
  const ProgramNode& set = runs.plan.nodes[*nodes->Find("set", "")];
  EXPECT_EQ(std::get<ScatterOp>(set.operation).indices,
            (std::vector<int64_t>{22, 23}));
  const ProgramNode& f = runs.plan.nodes[*nodes->Find("f", "")];
  EXPECT_EQ(std::get<FunctionOp>(f.operation).function, Function::kJumpRelu);
  ASSERT_EQ(runs.plan.gradient_passes.size(), 1);
  EXPECT_EQ(runs.plan.gradient_passes[0].gradients,
            std::vector{*nodes->Find("g", "")});
}

TEST(PlanProgram, NamesTheNodeThatCannotBeMade) {
  const Refusal kRefusals[] = {
      {"nodes { number: 1 }", "program.nodes[0].name: is empty"},
      {"nodes { name: 'a' number: 1 } nodes { name: 'a' number: 2 }",
       "program.nodes[1].name: \"a\" is the name of program.nodes[0] as well"},
      {"nodes { name: 'a' }", "program.nodes[0]: node \"a\" has no operation"},
      {"nodes { name: 'abcd' number: 1 } "
       "nodes { name: 'b' inputs: 'abce' function: FUNCTION_EXP }",
       "program.nodes[1].inputs[0]: no node is named \"abce\"; valid: nearest "
       "are \"abcd\""},
      {"nodes { name: 'a' inputs: 'a' function: FUNCTION_EXP }",
       "program.nodes[0]: needs itself: \"a\" -> \"a\""},
      {"nodes { name: 'c' inputs: 'a' function: FUNCTION_EXP }"
       "nodes { name: 'a' inputs: 'b' function: FUNCTION_EXP }"
       "nodes { name: 'b' inputs: 'a' function: FUNCTION_EXP }",
       "program.nodes[1]: needs itself: \"a\" -> \"b\" -> \"a\""},
      {"nodes { name: 'g' gradient { of: 'm' } } "
       "nodes { name: 'm' metric { node: 'g' } }",
       "needs itself: \"g\" -> \"m\" -> \"g\""},
      {"nodes { name: 'a' inputs: 'b' number: 1 } nodes { name: 'b' number: 1 "
       "}",
       "program.nodes[0].inputs: node \"a\" has 1 inputs; valid: 0"},
      {"nodes { name: 'a' read { hook_point: 'logits' } }",
       "program.nodes[0].read.run: the run is not named"},
      {"nodes { name: 'a' read { run: 'a' } }",
       "program.nodes[0].read.hook_point: the hook point is not named"},
      {"nodes { name: 'a' read { run: 'c' hook_point: 'logits' } }",
       "program.nodes[0].read.run: no run is labelled \"c\""},
      {"nodes { name: 'a' read { run: 'a' hook_point: 'layers.*.mlp_up' } }",
       "program.nodes[0].read.hook_point: \"layers.*.mlp_up\" names 4 hook "
       "points"},
      {"nodes { name: 'a' read { run: 'a' hook_point: 'input_ids' } }",
       "program.nodes[0]: input_ids holds integers"},
      {"nodes { name: 'a' read { run: 'b' hook_point: 'logits' selection { "
       "positions { indices: 3 } } } }",
       "program.nodes[0].read.selection.positions.indices[0]: 3 is outside"},
      {"nodes { name: 'a' read { run: 'b' hook_point: 'logits' selection { "
       "steps { indices: 1 } } } }",
       "program.nodes[0].read.selection.steps: values are read in the prompt"},
      {"nodes { name: 'a' constant: 'b' }",
       "program.nodes[0].constant: no constant is named \"b\"; valid: the "
       "request has no constants"},
      {"nodes { name: 'a' tensor { shape: 2 dtype: DATA_TYPE_F32 } }",
       "program.nodes[0].tensor.data: 0 bytes for float32 [2]; valid: 8"},
      {"nodes { name: 'a' number: inf }", "program.nodes[0].number: inf"},
      {"nodes { name: 'a' noise { like { run: 'a' hook_point: 'logits' "
       "read_time: READ_TIME_BEFORE } } }",
       "program.nodes[0].noise.like.read_time"},
      {absl::StrCat(kX, "nodes { name: 'a' inputs: 'x' function: 0 }"),
       "program.nodes[1].function: FUNCTION_UNSPECIFIED"},
      {absl::StrCat(kX,
                    "nodes { name: 'a' inputs: ['x', 'x'] function: "
                    "FUNCTION_EXP }"),
       "program.nodes[1]: exp with 2 inputs; valid: 1"},
      {absl::StrCat(kX, "nodes { name: 'a' inputs: 'x' reduce {} }"),
       "program.nodes[1].reduce.kind: REDUCE_KIND_UNSPECIFIED"},
      {absl::StrCat(kX, "nodes { name: 'a' inputs: 'x' round {} }"),
       "program.nodes[1].round.dtype: DATA_TYPE_UNSPECIFIED"},
      {absl::StrCat(kX,
                    "nodes { name: 'a' inputs: 'x' round { dtype: "
                    "DATA_TYPE_I64 } }"),
       "program.nodes[1]: rounds to int64"},
      {absl::StrCat(kX,
                    "nodes { name: 'a' inputs: 'x' gather { dimension: 2 "
                    "indices { indices: 0 } } }"),
       "program.nodes[1].gather.dimension: dimension 2 of [5, 24]"},
      {absl::StrCat(kX,
                    "nodes { name: 'a' inputs: 'x' gather { dimension: 0 "
                    "indices { indices: 5 } } }"),
       "program.nodes[1].gather.indices.indices[0]: 5 is outside"},
      {absl::StrCat(kX,
                    "nodes { name: 'a' inputs: ['x', 'x'] gather { "
                    "indices { indices: 0 } } }"),
       "program.nodes[1].inputs: node \"a\" has 2 inputs; valid: 1"},
      {absl::StrCat(kX,
                    "nodes { name: 'a' inputs: 'x' scatter { indices { "
                    "indices: 0 } } }"),
       "program.nodes[1].inputs: node \"a\" has 1 inputs; valid: 2"},
      {absl::StrCat(kX, "nodes { name: 'a' inputs: ['x', 'x'] scatter {} }"),
       "program.nodes[1].scatter.indices: is set but selects nothing"},
      {absl::StrCat(kX,
                    "nodes { name: 'a' inputs: 'x' reshape { shape: 7 } "
                    "}"),
       "program.nodes[1]: reshape of [5, 24] to [7]"},
      {"nodes { name: 'a' reshape { shape: 7 } }",
       "program.nodes[0].inputs: node \"a\" has 0 inputs"},
      {"nodes { name: 'a' encode {} }", "program.nodes[0].inputs"},
      {"nodes { name: 'a' decode {} }", "program.nodes[0].inputs"},
      {"nodes { name: 'a' latch {} }", "program.nodes[0].inputs"},
      {"nodes { name: 'a' unembed {} }",
       "program.nodes[0]: unembed with 0 inputs"},
      {"nodes { name: 'a' concatenate {} }",
       "program.nodes[0]: concatenate with 0 inputs"},
      {"nodes { name: 'a' tensor_name: 't' }",
       "program.nodes[0].tensor_name: tensor \"t\": this server keeps none",
       absl::StatusCode::kNotFound},
      {absl::StrCat(kX,
                    "nodes { name: 'a' gradient { of: 'x' with_respect_to "
                    "{ run: 'a' hook_point: 'logits' } } }"),
       "program.nodes[1].gradient: the gradient of a value [5, 24]"},
      {"nodes { name: 'm' metric { run: 'a' logit { token_id: 1 } } }"
       "nodes { name: 'a' gradient { of: 'm' with_respect_to { run: 'b' "
       "hook_point: 'logits' } } }",
       "program.nodes[1].gradient: the metric does not depend on run \"b\""},
  };
  for (const Refusal& refusal : kRefusals) {
    PlannedRuns runs(Program(refusal.request));
    EXPECT_THAT(PlanProgram(runs.parts).status(),
                StatusIs(refusal.code, HasSubstr(refusal.message)))
        << refusal.request;
  }
}

TEST(PlanProgram, HoldsTheLimitOnNodes) {
  PlanContext context = TinyContext();
  context.limits.max_program_nodes = 1;
  PlannedRuns runs(Program("nodes { name: 'a' number: 1 } "
                           "nodes { name: 'b' number: 1 }"),
                   context);
  EXPECT_THAT(PlanProgram(runs.parts),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("program.nodes: 2 nodes; valid: at most 1")));
}

TEST(PlanProgram, FollowsAChainOfAsManyNodesAsAllowed) {
  PlannedRuns runs(kTwoRuns);
  const int count = static_cast<int>(runs.context.limits.max_program_nodes);
  v1::Program& program = *runs.request.mutable_program();
  for (int i = 0; i < count; ++i) {
    v1::Node& node = *program.add_nodes();
    node.set_name(absl::StrCat(i));
    if (i + 1 == count) {
      node.set_number(1);
    } else {
      node.add_inputs(absl::StrCat(i + 1));
      node.set_function(v1::FUNCTION_EXP);
    }
  }
  EXPECT_THAT(PlanProgram(runs.parts), IsOk());
  program.mutable_nodes(count - 1)->add_inputs("0");
  program.mutable_nodes(count - 1)->set_function(v1::FUNCTION_EXP);
  PlannedRuns again(kTwoRuns);
  *again.request.mutable_program() = program;
  EXPECT_THAT(PlanProgram(again.parts),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("\"15\" -> ... -> \"0\"")));
}

TEST(PlanProgram, RefusesAConstantThatNothingUsesAsWell) {
  PlannedRuns runs(absl::StrCat(
      kTwoRuns,
      "constants { key: 'c' value { dtype: DATA_TYPE_F32 data: 'abc' } }"));
  EXPECT_THAT(PlanProgram(runs.parts),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       StartsWith("constants[\"c\"].data: 3 bytes")));
}

TEST(PlanProgram, CountsAConstantOnceHoweverManyNodesNameIt) {
  PlanContext context = TinyContext();
  context.limits.max_constant_bytes = 4;
  PlannedRuns runs(
      absl::StrCat(kTwoRuns,
                   "constants { key: 'c' value { dtype: DATA_TYPE_F32 data: "
                   "'\\x00\\x00\\x80\\x3f' } } program {"
                   "nodes { name: 'a' constant: 'c' }"
                   "nodes { name: 'b' constant: 'c' } }"),
      context);
  const auto nodes = PlanProgram(runs.parts);
  ASSERT_THAT(nodes, IsOk());
  EXPECT_EQ(*nodes->Find("a", ""), *nodes->Find("b", ""));
}

// Random valid graphs, named at random and in random order: each node's inputs
// come before it, and shapes are those of an elementwise NumPy.
TEST(PlanProgram, PutsRandomGraphsInAnOrder) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const int count = 1 + static_cast<int>(random() % 40);
    std::vector<v1::Node> made;
    for (int i = 0; i < count; ++i) {
      v1::Node& node = made.emplace_back();
      node.set_name(absl::StrCat("n", i));
      const int inputs = i == 0 ? 0 : static_cast<int>(random() % 4);
      for (int j = 0; j < inputs; ++j) {
        node.add_inputs(absl::StrCat("n", random() % i));
      }
      if (inputs == 0) node.set_number(static_cast<double>(random() % 5));
      if (inputs == 1) node.set_function(v1::FUNCTION_TANH);
      if (inputs == 2) node.set_function(v1::FUNCTION_MULTIPLY);
      if (inputs == 3) node.set_function(v1::FUNCTION_WHERE);
    }
    std::shuffle(made.begin(), made.end(), random);
    PlannedRuns runs(kTwoRuns);
    for (const v1::Node& node : made) {
      *runs.request.mutable_program()->add_nodes() = node;
    }
    const auto nodes = PlanProgram(runs.parts);
    ASSERT_THAT(nodes, IsOk());
    for (const v1::Node& node : made) {
      const int index = *nodes->Find(node.name(), "");
      const ProgramNode& planned = runs.plan.nodes[index];
      ASSERT_EQ(static_cast<int>(planned.inputs.size()), node.inputs_size());
      for (int i = 0; i < node.inputs_size(); ++i) {
        EXPECT_EQ(planned.inputs[i], *nodes->Find(node.inputs(i), ""));
        EXPECT_LT(planned.inputs[i], index);
      }
    }
  }
}

}  // namespace
}  // namespace phitap
