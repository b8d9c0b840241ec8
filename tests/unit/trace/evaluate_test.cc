// SPDX-License-Identifier: Apache-2.0
#include "server/trace/evaluate.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <limits>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/trace/host_view.h"
#include "tests/unit/trace/evaluate_fixture.h"

namespace phitap {
namespace {

using ::testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST_F(EvaluateTest, KeepsTheTypeOfWhatIsOnlyMoved) {
  const at::Tensor x = at::randn({3, 4}).to(at::kHalf);
  const auto type = [&](Operation operation, const Tensors& inputs) {
    return Causal(std::move(operation), inputs).scalar_type();
  };
  EXPECT_EQ(type(GatherOp{.dimension = 0, .indices = Sizes{1}}, {x}),
            at::kHalf);
  EXPECT_EQ(type(PermuteOp{{1, 0}}, {x}), at::kHalf);
  EXPECT_EQ(type(ConcatenateOp{}, {x, x}), at::kHalf);
  EXPECT_EQ(type(ConcatenateOp{}, {x, x.to(at::kFloat)}), at::kFloat);
  EXPECT_EQ(type(ScatterOp{.dimension = 0, .indices = {1}}, {x, x[0]}),
            at::kHalf);
}

TEST_F(EvaluateTest, GathersAtComputedIndices) {
  const at::Tensor x = at::randn({4, 3});
  const GatherOp gather{.dimension = 0};
  EXPECT_TRUE(at::equal(Causal(gather, {x, at::tensor({2.9f, 0.2f})}),
                        at::stack({x[3], x[0]})));
  EXPECT_TRUE(
      at::equal(Causal(gather, {x, at::full({}, 1.0)}), x.narrow(0, 1, 1)));
}

TEST_F(EvaluateTest, RefusesComputedIndicesOutOfRangeNamingTheNode) {
  const at::Tensor x = at::randn({4, 3});
  for (const float index : {-1.f, 4.f, kNan, 1e20f}) {
    try {
      Causal(GatherOp{.dimension = 0}, {x, at::full({1}, index)});
      FAIL() << index;
    } catch (const c10::ValueError& error) {
      EXPECT_THAT(error.what_without_backtrace(),
                  HasSubstr("program.nodes[3]: gather at index"));
      EXPECT_THAT(error.what_without_backtrace(), HasSubstr("valid: 0 to 3"));
    }
  }
}

TEST_F(EvaluateTest, BreaksTiesOfTheTopTowardsTheSmallerIndex) {
  const at::Tensor x = at::tensor({1.f, 3.f, 3.f, 3.f, -1.f}).view({1, 5});
  EXPECT_TRUE(
      at::equal(Causal(TopKOp{.k = 2, .part = TopKOp::Part::kIndices}, {x}),
                at::tensor({1.f, 2.f}).view({1, 2})));
  EXPECT_TRUE(at::equal(Causal(TopKActivationOp{.k = 2}, {x}),
                        at::tensor({0.f, 3.f, 3.f, 0.f, 0.f}).view({1, 5})));
}

TEST_F(EvaluateTest, KeepsOnlyPositiveActivationsOfTheTop) {
  const at::Tensor x = at::tensor({-1.f, -3.f, 2.f, -2.f}).view({1, 4});
  EXPECT_TRUE(at::equal(Causal(TopKActivationOp{.k = 3}, {x}),
                        at::tensor({0.f, 0.f, 2.f, 0.f}).view({1, 4})));
}

TEST_F(EvaluateTest, ReshapesASmallerPassAlongItsPositions) {
  struct Reshape {
    Sizes planned, actual, target, expected;
  };
  const Reshape reshapes[] = {
      {{4, 24}, {4, 24}, {4, 3, 8}, {4, 3, 8}},
      {{4, 24}, {1, 24}, {4, 3, 8}, {1, 3, 8}},
      {{4, 24}, {3, 24}, {96}, {72}},
      {{2, 4, 8}, {2, 1, 8}, {8, 8}, {2, 8}},
      {{2, 4, 8}, {2, 3, 8}, {1, 2, 1, 4, 2, 4}, {1, 2, 1, 3, 2, 4}},
      {{4, 4}, {2, 4}, {4, 2, 2}, {2, 2, 2}},
  };
  for (const Reshape& r : reshapes) {
    const std::vector<ProgramNode> nodes = {{.shape = r.planned}};
    const at::Tensor x = at::randn(r.actual);
    const at::Tensor value =
        Evaluate({.operation = ReshapeOp{}, .inputs = {0}, .shape = r.target},
                 Tensors{x}, {.model = *model_, .nodes = nodes});
    EXPECT_TRUE(at::equal(value, x.reshape(r.expected)));
  }
}

TEST_F(EvaluateTest, RefusesAReshapeThatTearsThePositionsApart) {
  const std::vector<ProgramNode> nodes = {{.shape = {4, 6}}};
  try {
    Evaluate({.operation = ReshapeOp{},
              .inputs = {0},
              .shape = {2, 12},
              .field = "program.nodes[5]"},
             Tensors{at::randn({3, 6})}, {.model = *model_, .nodes = nodes});
    FAIL();
  } catch (const c10::ValueError& error) {
    EXPECT_THAT(error.what_without_backtrace(),
                HasSubstr("program.nodes[5]: cannot reshape [3, 6]"));
  }
}

TEST_F(EvaluateTest, UnembedsAsTheModelDoes) {
  const int64_t width = model_->spec().hidden_size;
  const at::Tensor x = at::randn({2, 3, width});
  const at::Tensor lines = x.to(at::kBFloat16).view({6, width});
  for (const auto& [ours, lens] :
       {std::pair(UnembedOp::Norm::kApply, Phi3::LensNorm::kApply),
        std::pair(UnembedOp::Norm::kSkip, Phi3::LensNorm::kSkip)}) {
    const at::Tensor logits = Causal(UnembedOp{ours}, {x});
    EXPECT_EQ(logits.sizes(), (Sizes{2, 3, 96}));
    EXPECT_TRUE(
        at::equal(logits.view({6, 96}), model_->LensLogits(lines, lens)));
    const at::Tensor library =
        Value(UnembedOp{ours}, {x}, ForwardNumerics::kTransformers);
    EXPECT_TRUE(at::allclose(library, logits, 2e-2, 2e-2));
    EXPECT_GT(logits.abs().max().item<float>(), 0.1);
  }
}

TEST_F(EvaluateTest, UnembedsWithAGradient) {
  const at::Tensor x =
      at::randn({3, model_->spec().hidden_size}).requires_grad_(true);
  const at::Tensor logits =
      Evaluate({.operation = UnembedOp{}}, Tensors{x},
               {.model = *model_,
                .numerics = ForwardNumerics::kTransformers,
                .graph = ForwardGraph::kRecorded});
  logits.select(0, 1).sum().backward();
  EXPECT_GT(x.grad()[1].abs().max().item<float>(), 0);
  EXPECT_EQ(x.grad()[0].abs().max().item<float>(), 0);
}

TEST_F(EvaluateTest, ShowsAConstantsOwnBytesAndKeepsThemAlive) {
  const at::Tensor x = at::randn({2, 3}).to(at::kBFloat16);
  HostTensor host = ToHost(x.clone());
  const void* const bytes = host.bytes.data();
  const at::Tensor value = Causal(ConstantValue{std::move(host)}, {});
  host = {};
  EXPECT_EQ(value.const_data_ptr(), bytes);
  EXPECT_TRUE(at::equal(value, x));
}

}  // namespace
}  // namespace phitap
