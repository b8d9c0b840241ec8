// Which writes count as the same, and which keep positions apart.
#include <gmock/gmock.h>

#include "server/plan/sharing/position_mixing.h"
#include "server/plan/sharing/write_digests.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/plan/edits.h"
#include "tests/unit/plan/programming.h"

namespace phitap {
namespace {

using ::testing::Each;
using ::testing::Ne;

constexpr Digest kDynamic;

// Of the only write of the only run of a request.
WriteExtent ExtentOf(const std::string& intervention,
                     const std::string& more = "",
                     const std::string& prompt = "abcde") {
  const auto plan = Plan(absl::StrCat("runs { label: 'r' prompt { text: '",
                                      prompt, "' } interventions { ",
                                      intervention, " } } ", kLogits, more),
                         KeepingContext());
  EXPECT_THAT(plan, IsOk()) << intervention;
  if (!plan.ok()) return {};
  EXPECT_EQ((*plan)->runs[0].sharing.writes.size(), 1u);
  return (*plan)->runs[0].sharing.writes.front();
}

// A float32 vector of 24 elements, all 0 but the last.
std::string Vector(const std::string& last_element) {
  std::string bytes;
  for (int i = 0; i < 23 * 4; ++i) absl::StrAppend(&bytes, "\\0");
  return absl::StrCat("tensor { dtype: DATA_TYPE_F32 shape: 24 data: '", bytes,
                      last_element, "' }");
}

std::string At(const std::string& point, const std::string& change) {
  return absl::StrCat("hook_points: '", point, "' ", change);
}

const char kPoint[] = "layers.1.layer_output";

TEST(WriteDigest, IsTheSameForTheSameWrite) {
  const std::string writes[] = {
      At(kPoint, "set { value { number: 2 } }"),
      At(kPoint,
         "add { scale: 3 value { " + Vector("\\0\\0\\x80\\x3f") + " } }"),
      At(kPoint,
         "selection { positions { indices: [1, 3] } } noise { seed: 5 "
         "scale: 2 }"),
      At(kPoint,
         "project_out { direction { " + Vector("\\0\\0\\x80\\x3f") + " } }"),
      At(kPoint,
         "subspace { basis { tensor_name: 'basis' } source { number: 0 "
         "} }"),
      At(kPoint,
         "dictionary { dictionary { name: 'sae' } edits { "
         "feature: 1 scale: 2 } }"),
      At("layers.0.attention_scores",
         "selection { queries { indices: 2 } keys { indices: 1 } } knockout "
         "{}"),
  };
  for (const std::string& write : writes) {
    const WriteExtent one = ExtentOf(write);
    const WriteExtent other = ExtentOf(write);
    EXPECT_TRUE(one.is_static()) << write;
    EXPECT_EQ(one.digest, other.digest) << write;
    EXPECT_FALSE(one.mixes_positions) << write;
    // Neither the tokens nor their number matter.
    EXPECT_EQ(one.digest, ExtentOf(write, "", "xyzabcd").digest) << write;
  }
}

// Each differs from all others in one thing.
TEST(WriteDigest, IsAnotherForEverySingleChange) {
  const std::string one = "\\0\\0\\x80\\x3f";
  const std::string program =
      "program { nodes { name: 'p' number: 1 } nodes { name: 'q' number: 3 } "
      "nodes { name: 'p-q' inputs: 'p' inputs: 'q' function: FUNCTION_SUBTRACT "
      "} nodes { name: 'q-p' inputs: 'q' inputs: 'p' function: "
      "FUNCTION_SUBTRACT } nodes { name: 'q/p' inputs: 'q' inputs: 'p' "
      "function: FUNCTION_DIVIDE } nodes { name: 'softmax' inputs: 'v' softmax "
      "{} } nodes { name: 'log' inputs: 'v' softmax { log: true } } nodes { "
      "name: 'v' tensor { dtype: DATA_TYPE_BF16 shape: 2 data: "
      "'\\x80\\x3f\\0\\0' } } nodes { name: 'w' tensor { dtype: DATA_TYPE_F16 "
      "shape: 2 data: '\\x80\\x3f\\0\\0' } } nodes { name: 'v0' inputs: 'v' "
      "gather { dimension: 0 indices { indices: 0 } } } nodes { name: 'v1' "
      "inputs: 'v' gather { dimension: 0 indices { indices: 1 } } } nodes { "
      "name: 'w0' inputs: 'w' gather { dimension: 0 indices { indices: 0 } } } "
      "nodes { name: 'clamp' inputs: 'p' clamp { low: 0 } } nodes { name: "
      "'clamp2' inputs: 'p' clamp { high: 0 } } nodes { name: 'clamp3' inputs: "
      "'p' clamp { low: -0.0 } } nodes { name: 'round' inputs: 'p' round { "
      "dtype: DATA_TYPE_BF16 } } nodes { name: 'round2' inputs: 'p' round { "
      "dtype: DATA_TYPE_F16 } } nodes { name: 'sum' inputs: 'v' reduce { kind: "
      "REDUCE_KIND_SUM } } nodes { name: 'max' inputs: 'v' reduce { kind: "
      "REDUCE_KIND_MAX } } nodes { name: 'keep' inputs: 'v' reduce { kind: "
      "REDUCE_KIND_MAX keep: true } } nodes { name: 'softmax0' inputs: "
      "'softmax' gather { dimension: 0 indices { indices: 0 } } } nodes { "
      "name: "
      "'log0' inputs: 'log' gather { dimension: 0 indices { indices: 0 } } } }";
  std::vector<std::string> writes = {
      At(kPoint, "set { value { number: 2 } }"),
      At(kPoint, "set { value { number: 0 } }"),
      At(kPoint, "set { value { number: -0.0 } }"),
      At(kPoint, "set { value { number: 2 } } when: 'p'"),
      At(kPoint, "set { value { number: 2 } } when: 'q'"),
      At("layers.2.layer_output", "set { value { number: 2 } }"),
      At("layers.1.mlp_output", "set { value { number: 2 } }"),
      At(kPoint,
         "selection { positions { indices: 0 } } set { value { number: "
         "2 } }"),
      At(kPoint,
         "selection { positions { indices: [0, 1] } } set { value { "
         "number: 2 } }"),
      At(kPoint,
         "selection { positions { indices: [1, 0] } } set { value { "
         "number: 2 } }"),
      At(kPoint,
         "selection { features { indices: 0 } } set { value { number: 2 "
         "} }"),
      At("layers.1.attention_premix",
         "selection { heads { indices: 0 } } set { value { number: 2 } }"),
      At("layers.1.attention_premix",
         "selection { heads { indices: 1 } } set { value { number: 2 } }"),
      At("layers.1.attention_premix",
         "selection { features { indices: 0 } } set { value { number: 2 } }"),
      At(kPoint, "add { value { number: 2 } }"),
      At(kPoint, "scale { value { number: 2 } }"),
      At(kPoint, "add { scale: 3 value { " + Vector(one) + " } }"),
      At(kPoint, "add { scale: 4 value { " + Vector(one) + " } }"),
      At(kPoint,
         "add { scale: 3 value { " + Vector("\\1\\0\\x80\\x3f") + "} }"),
      At(kPoint, "noise { seed: 5 scale: 2 }"),
      At(kPoint, "noise { seed: 6 scale: 2 }"),
      At(kPoint, "clamp { low: 1 }"),
      At(kPoint, "clamp { high: 1 }"),
      At(kPoint, "clamp { low: 1 high: 1 }"),
      At(kPoint,
         "dictionary { dictionary { name: 'sae' } edits { "
         "feature: 1 scale: 2 } }"),
      At(kPoint,
         "dictionary { dictionary { name: 'sae' } edits { "
         "feature: 2 scale: 2 } }"),
      At(kPoint,
         "dictionary { dictionary { name: 'jump' } edits { "
         "feature: 1 scale: 2 } }"),
  };
  for (const char* node :
       {"p-q", "q-p", "q/p", "v0", "v1", "w0", "clamp", "clamp2", "clamp3",
        "round", "round2", "sum", "max", "keep", "softmax0", "log0"}) {
    writes.push_back(
        At(kPoint, absl::StrCat("set { value { node: '", node, "' } }")));
  }
  std::map<Digest, std::string> seen;
  for (const std::string& write : writes) {
    const Digest digest = ExtentOf(write, program).digest;
    EXPECT_NE(digest, kDynamic) << write;
    const auto [found, is_new] = seen.emplace(digest, write);
    EXPECT_TRUE(is_new) << write << " is taken for " << found->second;
  }
}

TEST(WriteDigest, LooksAtContentNotAtWhereItCameFrom) {
  const std::string value = Vector("\\0\\0\\x80\\x3f");
  const std::string set = "set { value { ";
  EXPECT_EQ(ExtentOf(At(kPoint, set + value + " } }")).digest,
            ExtentOf(At(kPoint, set + "constant: 'c' } }"),
                     absl::StrCat("constants { key: 'c' value { ",
                                  value.substr(sizeof("tensor {") - 1), " }"))
                .digest);
}

TEST(WriteDigest, IsNoOtherWritesWhereValuesOfRunsAreNeeded) {
  const std::string other = "runs { label: 'o' prompt { text: 'abcde' } }";
  const std::string skip = At(kPoint, "skip {}");
  EXPECT_FALSE(ExtentOf(skip).is_static());
  const std::string values[] = {
      "run { run: 'o' }",
      "mean_of_runs { runs: 'o' hook_point: "
      "'layers.0.layer_output' over_positions: true }"};
  for (const std::string& value : values) {
    const std::string set = absl::StrCat("set { value { ", value, " } }");
    EXPECT_FALSE(ExtentOf(At(kPoint, set), other).is_static()) << value;
  }
  const std::string condition =
      "program { nodes { name: 'x' read { run: 'o' hook_point: "
      "'layers.0.layer_output' selection { positions { indices: 0 } features { "
      "indices: 0 } } } } }";
  EXPECT_FALSE(ExtentOf(At(kPoint, "set { value { number: 0 } } when: 'x'"),
                        other + condition)
                   .is_static());
}

// A value over the part of a write that no edit lowers to: each is added to a
// plan by hand.
class PositionMixing : public ::testing::Test {
 protected:
  PositionMixing() : planned_(kTwoRuns) {
    current_ = *planned_.builder.AddCurrent({5, 24}, "x");
  }
  int Add(Operation operation, std::vector<int> inputs) {
    const auto node =
        planned_.builder.Add(std::move(operation), std::move(inputs), "x");
    EXPECT_THAT(node, IsOk());
    return node.value_or(0);
  }
  int Constant(std::vector<int64_t> shape) {
    return *planned_.builder.AddKept(Zeros(std::move(shape)), "x");
  }
  bool Mixes(int value, Hook hook = Hook::kLayerOutput) {
    return MixesPositions(planned_.plan, {.point = {hook, 0}, .value = value});
  }

  PlannedRuns planned_;
  int current_ = 0;
};

TEST_F(PositionMixing, IsFoundInWhatGoesOverPositions) {
  const int weight = Constant({5, 5});
  const int turned = Add(PermuteOp{{1, 0}}, {current_});
  const int mean = Add(ReduceOp{.kind = ReduceOp::Kind::kMean,
                                .dimensions = {0},
                                .reduced = ReduceOp::Dimensions::kKeep},
                       {current_});
  const int all = Add(ReduceOp{.kind = ReduceOp::Kind::kMax}, {current_});
  const int flat = *planned_.builder.AddReshape(current_, {120}, "x");
  // Dimension 1 of what has one more in front is that of positions.
  const int stacked =
      Add(FunctionOp{Function::kAdd}, {current_, Constant({1, 5, 24})});
  const int mixing[] = {
      Add(ReduceOp{.dimensions = {1}, .reduced = ReduceOp::Dimensions::kKeep},
          {stacked}),
      mean,
      all,
      turned,
      Add(FunctionOp{Function::kSubtract}, {current_, mean}),
      Add(FunctionOp{Function::kSubtract}, {current_, all}),
      Add(PermuteOp{{1, 0}}, {Add(LinearOp(), {turned, weight})}),
      Add(PermuteOp{{1, 0}}, {Add(SoftmaxOp(), {turned})}),
      *planned_.builder.AddReshape(Add(SoftmaxOp(), {flat}), {5, 24}, "x"),
      Add(GatherOp{.dimension = 0, .indices = {{4, 3, 2, 1, 0}}}, {current_}),
      Add(ScatterOp{.dimension = 0, .indices = {1}},
          {current_, Constant({24})}),
      Add(LinearOp{LinearOp::Weight::kInOut}, {Constant({5, 5}), current_}),
  };
  for (const int node : mixing) EXPECT_TRUE(Mixes(node)) << node;
}

TEST_F(PositionMixing, IsNotFoundInWhatStaysAtAPosition) {
  const int weight = Constant({24, 24});
  const int column =
      Add(GatherOp{.dimension = 1, .indices = {{3}}}, {current_});
  const int apart[] = {
      current_,
      Add(FunctionOp{Function::kAdd}, {current_, Constant({24})}),
      Add(FunctionOp{Function::kAdd}, {current_, Constant({5, 24})}),
      Add(FunctionOp{Function::kAdd}, {Constant({5, 1}), current_}),
      Add(LinearOp(), {current_, weight}),
      Add(DotOp(), {current_, Constant({24})}),
      Add(ReduceOp{.kind = ReduceOp::Kind::kNorm,
                   .dimensions = {1},
                   .reduced = ReduceOp::Dimensions::kKeep},
          {current_}),
      Add(SoftmaxOp(), {current_}),
      Add(TopKActivationOp{.k = 3}, {current_}),
      Add(ScatterOp{.dimension = 1, .indices = {3}}, {current_, column}),
      Add(ConcatenateOp{.dimension = 1}, {column, current_}),
      Add(RoundOp{DType::kBF16}, {current_}),
      // A constant of its own mixes nothing of the part.
      Add(ReduceOp{.kind = ReduceOp::Kind::kSum}, {Constant({5, 24})}),
  };
  for (const int node : apart) EXPECT_FALSE(Mixes(node)) << node;
}

// An entry's row of keys is as long as the prompt.
TEST_F(PositionMixing, IsFoundInRowsOfKeysAndHeadsFirst) {
  const int pattern = *planned_.builder.AddCurrent({6, 5, 5}, "x");
  EXPECT_FALSE(
      Mixes(Add(ClampOp{.low = 0}, {pattern}), Hook::kAttentionScores));
  EXPECT_TRUE(Mixes(Add(SoftmaxOp(), {pattern}), Hook::kAttentionScores));
  EXPECT_FALSE(Mixes(Add(SoftmaxOp(), {pattern}), Hook::kAttentionQueries));
  const auto mean_over = [&](int64_t dimension) {
    return Add(ReduceOp{.kind = ReduceOp::Kind::kMean,
                        .dimensions = {dimension},
                        .reduced = ReduceOp::Dimensions::kKeep},
               {pattern});
  };
  EXPECT_TRUE(Mixes(mean_over(1), Hook::kAttentionQueries));
  EXPECT_FALSE(Mixes(mean_over(2), Hook::kAttentionQueries));
  EXPECT_FALSE(Mixes(mean_over(2), Hook::kAttentionPremix));
}

}  // namespace
}  // namespace phitap
