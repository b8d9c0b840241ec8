#include "server/plan/program/node_shapes.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "server/plan/program/functions.h"
#include "tests/support/model_specs.h"
#include "tests/support/status_matchers.h"

namespace phitap {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Fit {
  Operation operation;
  std::vector<Shape> inputs;
  Shape shape;
};

TEST(NodeShapes, FollowFromTheInputsOfEveryOperation) {
  using Out = LinearOp::Weight;
  const auto keep = ReduceOp::Dimensions::kKeep;
  const Fit kFits[] = {
      {FunctionOp{Function::kAdd}, {{5, 24}, {24}}, {5, 24}},
      {FunctionOp{Function::kDivide}, {{5, 1}, {3, 1, 4}}, {3, 5, 4}},
      {FunctionOp{Function::kExp}, {{2, 3}}, {2, 3}},
      {FunctionOp{Function::kNot}, {{}}, {}},
      {FunctionOp{Function::kWhere}, {{5, 1}, {7}, {}}, {5, 7}},
      {FunctionOp{Function::kJumpRelu}, {{5, 7}, {7}}, {5, 7}},
      {LinearOp{}, {{5, 24}, {7, 24}}, {5, 7}},
      {LinearOp{}, {{24}, {7, 24}, {7}}, {7}},
      {LinearOp{Out::kInOut}, {{2, 3, 24}, {24, 7}, {7}}, {2, 3, 7}},
      {DotOp{}, {{5, 24}, {24}}, {5, 1}},
      {DotOp{}, {{24}, {5, 1}}, {5, 1}},
      {ReduceOp{}, {{5, 24}}, {}},
      {ReduceOp{.reduced = keep}, {{5, 24}}, {1, 1}},
      {ReduceOp{.dimensions = {-1}}, {{5, 24}}, {5}},
      {ReduceOp{.dimensions = {-1, 0}}, {{5, 3, 24}}, {3}},
      {ReduceOp{.dimensions = {1}, .reduced = keep}, {{5, 3, 4}}, {5, 1, 4}},
      {SoftmaxOp{}, {{5, 50}}, {5, 50}},
      {ClampOp{.low = 1.0}, {{}}, {}},
      {ClampOp{.low = 1.0, .high = 1.0}, {{3}}, {3}},
      {TopKOp{.k = 50}, {{5, 50}}, {5, 50}},
      {TopKOp{.k = 1}, {{50}}, {1}},
      {TopKActivationOp{.k = 2}, {{5, 7}}, {5, 7}},
      {GatherOp{-1, std::vector<int64_t>{6, 0, 6}}, {{5, 7}}, {5, 3}},
      {GatherOp{0, std::nullopt}, {{5, 7}, {2}}, {2, 7}},
      {GatherOp{0, std::nullopt}, {{5, 7}, {}}, {1, 7}},
      {ScatterOp{1, {0, 6}}, {{5, 7}, {5, 2}}, {5, 7}},
      {ScatterOp{-1, {3}}, {{5, 7}, {}}, {5, 7}},
      {PermuteOp{{-1, 0, 1}}, {{2, 3, 4}}, {4, 2, 3}},
      {ConcatenateOp{-2}, {{2, 3}, {5, 3}}, {7, 3}},
      {UnembedOp{}, {{5, 24}}, {5, 50}},
      {LatchOp{}, {{5, 1}}, {}},
      {RoundOp{DType::kBF16}, {{5}}, {5}},
  };
  for (const Fit& fit : kFits) {
    Operation operation = fit.operation;
    const auto shape =
        ResolveOperation(operation, fit.inputs, TinyGrouped(), "here");
    ASSERT_THAT(shape, IsOk()) << operation.index();
    EXPECT_EQ(*shape, fit.shape) << operation.index();
  }
}

struct Misfit {
  Operation operation;
  std::vector<Shape> inputs;
  std::string message;
};

TEST(NodeShapes, AreRefusedWhereInputsDoNotFit) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  const Misfit kMisfits[] = {
      {FunctionOp{Function::kAdd}, {{5, 24}, {7}}, "add of [5, 24] and [7]"},
      {FunctionOp{Function::kAdd}, {{5}}, "add with 1 inputs; valid: 2"},
      {FunctionOp{Function::kExp}, {}, "exp with 0 inputs; valid: 1"},
      {FunctionOp{Function::kWhere}, {{1}, {1}}, "where with 2 inputs"},
      {FunctionOp{Function::kWhere}, {{1}, {2}, {3}}, "where of [1] and [2]"},
      {LinearOp{}, {{5, 24}}, "linear with 1 inputs"},
      {LinearOp{}, {{5, 24}, {24, 7}}, "weight [out, in]"},
      {LinearOp{LinearOp::Weight::kInOut}, {{5, 24}, {7, 24}}, "[in, out]"},
      {LinearOp{}, {{5, 24}, {24}}, "linear of [5, 24] and [24]"},
      {LinearOp{}, {{}, {7, 24}}, "linear of [] and [7, 24]"},
      {LinearOp{}, {{5, 24}, {7, 24}, {1}}, "a bias [7]"},
      {LinearOp{}, {{24}, {7, 24}, {7}, {7}}, "linear with 4 inputs"},
      {DotOp{}, {{5, 24}, {7}}, "dot of [5, 24] and [7]"},
      {DotOp{}, {{}, {}}, "dot of [] and []"},
      {DotOp{}, {{3}}, "dot with 1 inputs"},
      {ReduceOp{.dimensions = {2}}, {{5, 24}}, "dimension 2 of [5, 24]"},
      {ReduceOp{.dimensions = {-3}}, {{5, 24}}, "valid: -2 to 1"},
      {ReduceOp{.dimensions = {1, -1}}, {{5, 24}}, "dimension 1 twice"},
      {ReduceOp{.dimensions = {0}}, {{}}, "dimension 0 of []"},
      {ReduceOp{}, {{1}, {1}}, "reduce with 2 inputs"},
      {SoftmaxOp{}, {{}}, "softmax of []"},
      {ClampOp{}, {{3}}, "neither low nor high"},
      {ClampOp{.low = 2.0, .high = 1.0}, {{3}}, "low 2 is above high 1"},
      {ClampOp{.low = nan}, {{3}}, "a bound is nan"},
      {ClampOp{.high = infinity}, {{3}}, "a bound is inf"},
      {TopKOp{.k = 0}, {{5, 50}}, "k = 0 of [5, 50]; valid: 1 to 50"},
      {TopKOp{.k = 51}, {{5, 50}}, "k = 51 of [5, 50]"},
      {TopKOp{.k = 1}, {{}}, "top_k of []"},
      {TopKActivationOp{.k = 8}, {{5, 7}}, "k = 8 of [5, 7]"},
      {GatherOp{0, std::vector<int64_t>{5}}, {{5, 7}}, "index 5 of [5, 7]"},
      {GatherOp{0, std::vector<int64_t>{-1}}, {{5, 7}}, "index -1"},
      {GatherOp{0, std::vector<int64_t>{}}, {{5, 7}}, "selects nothing"},
      {GatherOp{2, std::vector<int64_t>{0}}, {{5, 7}}, "dimension 2"},
      {GatherOp{0, std::vector<int64_t>{0}}, {{5}, {1}}, "with 2 inputs"},
      {GatherOp{0, std::nullopt}, {{5, 7}}, "without indices with 1 inputs"},
      {GatherOp{0, std::nullopt}, {{5, 7}, {2, 2}}, "indices [m]"},
      {ScatterOp{0, {0, 0}}, {{5}, {2}}, "index 0 twice"},
      {ScatterOp{0, {0, 1}}, {{5, 7}, {3, 7}}, "broadcasts to [2, 7]"},
      {ScatterOp{0, {5}}, {{5}, {}}, "index 5 of [5]"},
      {ScatterOp{0, {0}}, {{5}}, "scatter with 1 inputs"},
      {PermuteOp{{0}}, {{2, 3}}, "1 dimensions of [2, 3]"},
      {PermuteOp{{0, 0}}, {{2, 3}}, "dimension 0 twice"},
      {PermuteOp{{0, 2}}, {{2, 3}}, "dimension 2 of [2, 3]"},
      {ConcatenateOp{0}, {}, "concatenate with 0 inputs"},
      {ConcatenateOp{0}, {{2, 3}, {2, 4}}, "equal but for dimension 0"},
      {ConcatenateOp{0}, {{2, 3}, {2}}, "concatenate of [2, 3] and [2]"},
      {ConcatenateOp{0}, {{}}, "dimension 0 of []"},
      {UnembedOp{}, {{5, 23}}, "x [..., 24], the model's hidden_size"},
      {UnembedOp{}, {{}}, "unembed of []"},
      {LatchOp{}, {{1}, {1}}, "latch with 2 inputs"},
      {RoundOp{DType::kI32}, {{5}}, "rounds to int32"},
  };
  for (const Misfit& misfit : kMisfits) {
    Operation operation = misfit.operation;
    const auto shape =
        ResolveOperation(operation, misfit.inputs, TinyGrouped(), "here");
    EXPECT_THAT(shape, StatusIs(absl::StatusCode::kInvalidArgument,
                                StartsWith("here: ")));
    EXPECT_THAT(shape, StatusIs(absl::StatusCode::kInvalidArgument,
                                HasSubstr(misfit.message)));
  }
}

TEST(NodeShapes, CountDimensionsFromTheStart) {
  Operation reduce = ReduceOp{.dimensions = {-1, 0}};
  ASSERT_THAT(ResolveOperation(reduce, {{5, 3, 24}}, TinyGrouped(), ""),
              IsOk());
  EXPECT_EQ(std::get<ReduceOp>(reduce).dimensions,
            (std::vector<int64_t>{0, 2}));
  Operation permute = PermuteOp{{-1, 0}};
  ASSERT_THAT(ResolveOperation(permute, {{5, 3}}, TinyGrouped(), ""), IsOk());
  EXPECT_EQ(std::get<PermuteOp>(permute).dimensions,
            (std::vector<int64_t>{1, 0}));
}

TEST(NodeShapes, TakeEveryFunctionWithItsNumberOfInputs) {
  for (int i = 0; i <= static_cast<int>(Function::kWhere); ++i) {
    const Function function = static_cast<Function>(i);
    for (int count = 0; count <= 4; ++count) {
      Operation operation = FunctionOp{function};
      const auto shape =
          ResolveOperation(operation, std::vector<Shape>(count, Shape{2, 3}),
                           TinyGrouped(), "here");
      EXPECT_EQ(shape.ok(), count == ArityOf(function)) << Name(function);
    }
  }
}

TEST(NodeShapes, ReshapeToWhatHoldsAsManyElements) {
  EXPECT_EQ(*ReshapedTo({4, 6}, {3, -1, 2}, ""), (Shape{3, 4, 2}));
  EXPECT_EQ(*ReshapedTo({4, 6}, {24}, ""), (Shape{24}));
  EXPECT_EQ(*ReshapedTo({1, 1}, {}, ""), Shape());
  EXPECT_EQ(*ReshapedTo({}, {1, -1}, ""), (Shape{1, 1}));
  for (const Shape& to : {Shape{5}, Shape{5, -1}, Shape{-1, -1}, Shape{0},
                          Shape{-24}, Shape{-2, -12}, Shape{0, -1}, Shape{},
                          Shape{int64_t{1} << 62, int64_t{1} << 62}}) {
    EXPECT_THAT(ReshapedTo({4, 6}, to, "here"),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("multiply to 24")))
        << ShapeText(to);
  }
}

TEST(Shapes, BroadcastAsInNumPy) {
  EXPECT_EQ(BroadcastShape({5, 1, 3}, {4, 1}), (Shape{5, 4, 3}));
  EXPECT_EQ(BroadcastShape({}, {2}), Shape{2});
  EXPECT_EQ(BroadcastShape({3}, {4}), std::nullopt);
  EXPECT_TRUE(BroadcastsTo({1, 3}, {5, 3}));
  EXPECT_TRUE(BroadcastsTo({}, {}));
  EXPECT_FALSE(BroadcastsTo({5, 3}, {1, 3}));
  EXPECT_FALSE(BroadcastsTo({1, 3}, {3}));
}

TEST(Shapes, OfASelectionCountWhatIsKept) {
  const ModelSpec spec = TinyGrouped();
  ResolvedSelection part;
  EXPECT_EQ(SelectedShape(Hook::kAttentionScores, part, spec, 5),
            (Shape{6, 5, 5}));
  part.heads = {1, 4};
  part.keys = {0};
  EXPECT_EQ(SelectedShape(Hook::kAttentionScores, part, spec, 5),
            (Shape{2, 5, 1}));
  part.positions = {3, 1};
  EXPECT_EQ(SelectedShape(Hook::kAttentionKeys, part, spec, 5),
            (Shape{2, 2, 8}));
  EXPECT_EQ(SelectedShape(Hook::kNextTokenProbs, {}, spec, 5), Shape{50});
}

}  // namespace
}  // namespace phitap
