// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>

#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "server/trace/evaluate.h"
#include "tests/unit/trace/evaluate_fixture.h"

namespace phitap {
namespace {

// An operation and the plain formula that it stands for.
struct Case {
  std::string name;
  Operation operation;
  std::vector<Sizes> inputs;
  std::function<at::Tensor(const Tensors&)> plain;
  // Inputs that a gradient goes to.
  size_t differentiable = 0;
};

std::vector<Case> Cases() {
  using Reduced = ReduceOp::Dimensions;
  using Kind = ReduceOp::Kind;
  return {
      {"linear",
       LinearOp{},
       {{3, 5, 20}, {33, 20}, {33}},
       [](const Tensors& t) { return at::linear(t[0], t[1]) + t[2]; },
       3},
      {"transposed linear",
       LinearOp{LinearOp::Weight::kInOut},
       {{5, 20}, {20, 7}},
       [](const Tensors& t) { return at::matmul(t[0], t[1]); },
       2},
      {"linear of a vector",
       LinearOp{},
       {{20}, {7, 20}},
       [](const Tensors& t) { return at::linear(t[0], t[1]); },
       2},
      {"dot",
       DotOp{},
       {{4, 6, 20}, {6, 20}},
       [](const Tensors& t) { return (t[0] * t[1]).sum(-1, true); },
       2},
      {"sum",
       ReduceOp{.kind = Kind::kSum, .dimensions = {1}},
       {{4, 6, 5}},
       [](const Tensors& t) { return t[0].sum(1); },
       1},
      {"mean of two dimensions",
       ReduceOp{.kind = Kind::kMean,
                .dimensions = {0, 2},
                .reduced = Reduced::kKeep},
       {{4, 6, 5}},
       [](const Tensors& t) {
         return t[0].mean(Sizes{0, 2}, true);
       },
       1},
      {"mean of all",
       ReduceOp{.kind = Kind::kMean},
       {{4, 6}},
       [](const Tensors& t) { return t[0].mean(); },
       1},
      {"norm",
       ReduceOp{.kind = Kind::kNorm, .dimensions = {1}},
       {{4, 60}},
       [](const Tensors& t) { return t[0].norm(2, 1); },
       1},
      {"norm of all",
       ReduceOp{.kind = Kind::kNorm, .reduced = Reduced::kKeep},
       {{4, 60}},
       [](const Tensors& t) {
         return t[0].norm().view({1, 1});
       },
       1},
      {"max",
       ReduceOp{.kind = Kind::kMax, .dimensions = {1}},
       {{4, 6}},
       [](const Tensors& t) { return at::amax(t[0], {1}); },
       1},
      {"min of all",
       ReduceOp{.kind = Kind::kMin},
       {{4, 6}},
       [](const Tensors& t) { return t[0].min(); },
       1},
      {"softmax",
       SoftmaxOp{},
       {{4, 6}},
       [](const Tensors& t) { return at::softmax(t[0], -1); },
       1},
      {"log softmax",
       SoftmaxOp{SoftmaxOp::Scale::kLog},
       {{4, 3, 6}},
       [](const Tensors& t) { return at::log_softmax(t[0], -1); },
       1},
      {"clamp",
       ClampOp{.low = -0.5, .high = 1.0},
       {{4, 6}},
       [](const Tensors& t) { return at::clamp(t[0], -0.5, 1.0); },
       1},
      {"clamp from below",
       ClampOp{.low = 0.25},
       {{4, 6}},
       [](const Tensors& t) { return at::clamp_min(t[0], 0.25); },
       1},
      {"top values",
       TopKOp{.k = 2},
       {{4, 6}},
       [](const Tensors& t) { return std::get<0>(t[0].topk(2)); },
       1},
      {"top indices",
       TopKOp{.k = 3, .part = TopKOp::Part::kIndices},
       {{4, 6}},
       [](const Tensors& t) {
         return std::get<1>(t[0].topk(3)).to(at::kFloat);
       }},
      {"top-k activation",
       TopKActivationOp{.k = 2},
       {{4, 6}},
       [](const Tensors& t) {
         const at::Tensor least = std::get<0>(t[0].topk(2)).select(-1, 1);
         return at::relu(t[0]) * (t[0] >= least.unsqueeze(-1));
       },
       1},
      {"gather",
       GatherOp{.dimension = 1, .indices = Sizes{5, 0, 3}},
       {{4, 6}},
       [](const Tensors& t) {
         return t[0].index_select(1, at::tensor({5, 0, 3}));
       },
       1},
      {"scatter",
       ScatterOp{.dimension = 1, .indices = {4, 1}},
       {{3, 6}, {3, 1}},
       [](const Tensors& t) {
         const at::Tensor hit = at::tensor({0, 1, 0, 0, 1, 0}) != 0;
         return at::where(hit, t[1], t[0]);
       },
       2},
      {"permute",
       PermuteOp{{2, 0, 1}},
       {{3, 4, 5}},
       [](const Tensors& t) {
         return t[0].permute({2, 0, 1});
       },
       1},
      {"concatenate",
       ConcatenateOp{.dimension = 1},
       {{3, 4}, {3, 2}},
       [](const Tensors& t) {
         return at::cat({t[0], t[1]}, 1);
       },
       2},
      {"round",
       RoundOp{DType::kBF16},
       {{3, 40}},
       [](const Tensors& t) { return t[0].to(at::kBFloat16).to(at::kFloat); },
       1},
  };
}

Tensors RandomInputs(const Case& c) {
  Tensors inputs;
  for (const Sizes& sizes : c.inputs) inputs.push_back(at::randn(sizes));
  return inputs;
}

TEST_F(EvaluateTest, ComputesThePlainFormula) {
  for (const Case& c : Cases()) {
    const Tensors inputs = RandomInputs(c);
    const at::Tensor plain = c.plain(inputs);
    const at::Tensor library =
        Value(c.operation, inputs, ForwardNumerics::kTransformers);
    EXPECT_TRUE(at::equal(library, plain)) << c.name;
    const at::Tensor causal = Causal(c.operation, inputs);
    EXPECT_EQ(causal.sizes(), plain.sizes()) << c.name;
    EXPECT_TRUE(at::allclose(causal, plain, 1e-5, 1e-5)) << c.name;
  }
}

TEST_F(EvaluateTest, ComputesInFloat32WhateverTheInputsAre) {
  for (const Case& c : Cases()) {
    Tensors narrow = RandomInputs(c);
    Tensors wide;
    for (at::Tensor& input : narrow) {
      input = input.to(at::kBFloat16);
      wide.push_back(input.to(at::kFloat));
    }
    const at::Tensor value = Causal(c.operation, narrow);
    EXPECT_TRUE(at::equal(value.to(at::kFloat), Causal(c.operation, wide)))
        << c.name;
  }
}

TEST_F(EvaluateTest, LeavesItsInputsAlone) {
  for (const Case& c : Cases()) {
    const Tensors inputs = RandomInputs(c);
    Tensors before;
    for (const at::Tensor& input : inputs) before.push_back(input.clone());
    Causal(c.operation, inputs);
    for (size_t i = 0; i < inputs.size(); ++i) {
      EXPECT_TRUE(at::equal(inputs[i], before[i])) << c.name;
    }
  }
}

TEST_F(EvaluateTest, LetsGradientsThrough) {
  for (const Case& c : Cases()) {
    if (c.differentiable == 0) continue;
    Tensors ours = RandomInputs(c);
    Tensors plain;
    for (at::Tensor& input : ours) {
      plain.push_back(input.clone().requires_grad_(true));
      input.requires_grad_(true);
    }
    const at::Tensor value =
        Evaluate({.operation = c.operation, .field = "program.nodes[3]"}, ours,
                 {.model = *model_,
                  .numerics = ForwardNumerics::kTransformers,
                  .graph = ForwardGraph::kRecorded});
    const at::Tensor weights = at::randn(value.sizes());
    (value * weights).sum().backward();
    (c.plain(plain) * weights).sum().backward();
    for (size_t i = 0; i < c.differentiable; ++i) {
      EXPECT_TRUE(at::allclose(ours[i].grad(), plain[i].grad(), 1e-5, 1e-6))
          << c.name << ", input " << i;
    }
  }
}

}  // namespace
}  // namespace phitap
