// SPDX-License-Identifier: Apache-2.0
#include "server/trace/evaluate_function.h"

#include <ATen/ATen.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace phitap {
namespace {

using Tensors = std::vector<at::Tensor>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// A function and what it is of doubles.
struct Case {
  std::string name;
  Function function;
  std::function<double(double, double, double)> of;
  int arity = 2;
  bool differentiable = true;
};

double Phi(double x) { return 0.5 * (1 + std::erf(x / std::sqrt(2.0))); }

std::vector<Case> Cases() {
  using D = double;
  return {
      {"add", Function::kAdd, [](D a, D b, D) { return a + b; }},
      {"subtract", Function::kSubtract, [](D a, D b, D) { return a - b; }},
      {"multiply", Function::kMultiply, [](D a, D b, D) { return a * b; }},
      {"divide", Function::kDivide, [](D a, D b, D) { return a / b; }},
      {"maximum", Function::kMaximum,
       [](D a, D b, D) { return a > b ? a : b; }},
      {"minimum", Function::kMinimum,
       [](D a, D b, D) { return a < b ? a : b; }},
      {"negate", Function::kNegate, [](D a, D, D) { return -a; }, 1},
      {"absolute", Function::kAbsolute, [](D a, D, D) { return std::fabs(a); },
       1},
      {"exp", Function::kExp, [](D a, D, D) { return std::exp(a); }, 1},
      {"log", Function::kLog, [](D a, D, D) { return std::log(a); }, 1},
      {"sqrt", Function::kSqrt, [](D a, D, D) { return std::sqrt(a); }, 1},
      {"rsqrt", Function::kRsqrt, [](D a, D, D) { return 1 / std::sqrt(a); },
       1},
      {"relu", Function::kRelu, [](D a, D, D) { return a > 0 ? a : 0; }, 1},
      {"silu", Function::kSilu,
       [](D a, D, D) { return a / (1 + std::exp(-a)); }, 1},
      {"gelu", Function::kGelu, [](D a, D, D) { return a * Phi(a); }, 1},
      {"sigmoid", Function::kSigmoid,
       [](D a, D, D) { return 1 / (1 + std::exp(-a)); }, 1},
      {"tanh", Function::kTanh, [](D a, D, D) { return std::tanh(a); }, 1},
      {"jump relu", Function::kJumpRelu,
       [](D a, D b, D) { return a > b ? a : 0; }},
      {"less", Function::kLess, [](D a, D b, D) { return a < b; }, 2, false},
      {"less or equal", Function::kLessEqual,
       [](D a, D b, D) { return a <= b; }, 2, false},
      {"equal", Function::kEqual, [](D a, D b, D) { return a == b; }, 2, false},
      {"and", Function::kAnd, [](D a, D b, D) { return a != 0 && b != 0; }, 2,
       false},
      {"or", Function::kOr, [](D a, D b, D) { return a != 0 || b != 0; }, 2,
       false},
      {"not", Function::kNot, [](D a, D, D) { return a == 0; }, 1, false},
      {"where", Function::kWhere, [](D a, D b, D c) { return a != 0 ? b : c; },
       3},
  };
}

// Broadcast against one another; with zeros and equal elements.
Tensors InputsOf(const Case& c) {
  at::Tensor a = at::randn({3, 1, 17});
  if (c.function == Function::kLog || c.function == Function::kSqrt ||
      c.function == Function::kRsqrt) {
    a = a.abs() + 0.1;
  }
  const at::Tensor b = at::randn({4, 17});
  const bool compares = !c.differentiable || c.function == Function::kWhere;
  if (compares) a.select(2, 0).zero_();
  if (compares && c.function != Function::kWhere) {
    b.select(1, 1).zero_();
    b.select(1, 2).copy_(a[0][0][2].expand({4}));
  }
  Tensors inputs = {a, b, at::randn({17})};
  inputs.resize(c.arity);
  return inputs;
}

at::Tensor Expected(const Case& c, const Tensors& inputs) {
  Tensors all = at::broadcast_tensors(inputs);
  for (at::Tensor& tensor : all) tensor = tensor.contiguous();
  at::Tensor expected = at::empty(all[0].sizes());
  for (int64_t i = 0; i < expected.numel(); ++i) {
    double values[3] = {};
    for (int n = 0; n < c.arity; ++n) values[n] = all[n].data_ptr<float>()[i];
    expected.data_ptr<float>()[i] =
        static_cast<float>(c.of(values[0], values[1], values[2]));
  }
  return expected;
}

TEST(EvaluateFunction, ComputesEveryFunction) {
  for (const Case& c : Cases()) {
    const Tensors inputs = InputsOf(c);
    const at::Tensor expected = Expected(c, inputs);
    for (const auto numerics :
         {ForwardNumerics::kCausal, ForwardNumerics::kTransformers}) {
      const at::Tensor value = EvaluateFunction(c.function, inputs, numerics);
      EXPECT_EQ(value.scalar_type(), at::kFloat) << c.name;
      EXPECT_EQ(value.sizes(), expected.sizes()) << c.name;
      EXPECT_TRUE(at::allclose(value, expected, 1e-5, 1e-6)) << c.name;
    }
  }
}

// The slope of the function of doubles, halfway between its neighbours.
TEST(EvaluateFunction, HasTheSlopesOfEveryFunction) {
  for (const Case& c : Cases()) {
    if (!c.differentiable) continue;
    Tensors inputs = InputsOf(c);
    for (at::Tensor& input : inputs) input.requires_grad_(true);
    const at::Tensor value =
        EvaluateFunction(c.function, inputs, ForwardNumerics::kTransformers);
    value.sum().backward();
    for (int n = 0; n < c.arity; ++n) {
      if (c.function == Function::kWhere && n == 0) continue;
      constexpr double kStep = 1e-6;
      const auto moved = [&](double step) {
        return [&c, n, step](double x, double y, double z) {
          double values[3] = {x, y, z};
          values[n] += step;
          return c.of(values[0], values[1], values[2]) / (2 * kStep);
        };
      };
      const Case slope{.of =
                           [&](double x, double y, double z) {
                             return moved(kStep)(x, y, z) -
                                    moved(-kStep)(x, y, z);
                           },
                       .arity = c.arity};
      Tensors plain;
      for (const at::Tensor& input : inputs) plain.push_back(input.detach());
      const at::Tensor expected =
          Expected(slope, plain).sum_to_size(plain[n].sizes());
      // libtorch has none for an input that only decides (a threshold).
      const at::Tensor& slopes = inputs[n].grad();
      EXPECT_TRUE(
          at::allclose(slopes.defined() ? slopes : at::zeros_like(plain[n]),
                       expected, 1e-3, 1e-3))
          << c.name << ", input " << n;
    }
  }
}

TEST(EvaluateFunction, TakesNotANumberForTrueAndPassesItOn) {
  const at::Tensor nan = at::full({1}, kNan);
  const at::Tensor one = at::ones({1});
  const auto value = [&](Function function, const Tensors& inputs) {
    return EvaluateFunction(function, inputs, ForwardNumerics::kCausal)
        .item<float>();
  };
  EXPECT_EQ(value(Function::kAnd, {nan, one}), 1);
  EXPECT_EQ(value(Function::kNot, {nan}), 0);
  EXPECT_EQ(value(Function::kLess, {nan, one}), 0);
  EXPECT_EQ(value(Function::kJumpRelu, {nan, one}), 0);
  EXPECT_TRUE(std::isnan(value(Function::kMaximum, {nan, one})));
  EXPECT_TRUE(std::isnan(value(Function::kRelu, {nan})));
  EXPECT_TRUE(std::isnan(value(Function::kTanh, {nan})));
}

}  // namespace
}  // namespace phitap
