// SPDX-License-Identifier: Apache-2.0
#include "server/trace/evaluate_function.h"

#include <ATen/ops/abs.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/log.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <optional>

#include "server/trace/line_math.h"

namespace phitap {
namespace {

at::Tensor Truth(const at::Tensor& condition) {
  return condition.to(at::kFloat);
}

// A function that libtorch approximates: once as a value, once in place.
struct Approximated {
  at::Tensor (*of)(const at::Tensor&);
  void (*in_place)(at::Tensor&);
};

std::optional<Approximated> ApproximationOf(Function function) {
  switch (function) {
    case Function::kExp:
      return Approximated{[](const at::Tensor& x) { return at::exp(x); },
                          [](at::Tensor& x) { at::exp_(x); }};
    case Function::kLog:
      return Approximated{[](const at::Tensor& x) { return at::log(x); },
                          [](at::Tensor& x) { at::log_(x); }};
    case Function::kRsqrt:
      return Approximated{[](const at::Tensor& x) { return at::rsqrt(x); },
                          [](at::Tensor& x) { at::rsqrt_(x); }};
    case Function::kSilu:
      return Approximated{[](const at::Tensor& x) { return at::silu(x); },
                          [](at::Tensor& x) { at::silu_(x); }};
    case Function::kGelu:
      return Approximated{[](const at::Tensor& x) { return at::gelu(x); },
                          [](at::Tensor& x) { at::gelu_(x); }};
    case Function::kSigmoid:
      return Approximated{[](const at::Tensor& x) { return at::sigmoid(x); },
                          [](at::Tensor& x) { at::sigmoid_(x); }};
    case Function::kTanh:
      return Approximated{[](const at::Tensor& x) { return at::tanh(x); },
                          [](at::Tensor& x) { at::tanh_(x); }};
    default:
      return std::nullopt;
  }
}

// IEEE arithmetic and comparisons: the same bits wherever they are computed.
at::Tensor Exact(Function function, absl::Span<const at::Tensor> inputs) {
  const at::Tensor& a = inputs[0];
  const auto b = [&]() -> const at::Tensor& { return inputs[1]; };
  switch (function) {
    case Function::kAdd:
      return a + b();
    case Function::kSubtract:
      return a - b();
    case Function::kMultiply:
      return a * b();
    case Function::kDivide:
      return a / b();
    case Function::kMaximum:
      return at::maximum(a, b());
    case Function::kMinimum:
      return at::minimum(a, b());
    case Function::kNegate:
      return -a;
    case Function::kAbsolute:
      return at::abs(a);
    case Function::kSqrt:
      return at::sqrt(a);
    case Function::kRelu:
      return at::relu(a);
    case Function::kJumpRelu:
      return at::where(a > b(), a, at::zeros({}, a.options()));
    case Function::kLess:
      return Truth(a < b());
    case Function::kLessEqual:
      return Truth(a <= b());
    case Function::kEqual:
      return Truth(a == b());
    case Function::kAnd:
      return Truth((a != 0).logical_and(b() != 0));
    case Function::kOr:
      return Truth((a != 0).logical_or(b() != 0));
    case Function::kNot:
      return Truth(a == 0);
    case Function::kWhere:
      return at::where(a != 0, b(), inputs[2]);
    default:
      TORCH_CHECK(false, "no exact function ", static_cast<int>(function));
  }
}

}  // namespace

at::Tensor EvaluateFunction(Function function,
                            absl::Span<const at::Tensor> inputs,
                            ForwardNumerics numerics) {
  const std::optional<Approximated> approximated = ApproximationOf(function);
  if (!approximated.has_value()) return Exact(function, inputs);
  return numerics == ForwardNumerics::kCausal
             ? MapLines(inputs[0], approximated->in_place)
             : approximated->of(inputs[0]);
}

}  // namespace phitap
