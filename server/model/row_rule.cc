// SPDX-License-Identifier: Apache-2.0
#include "server/model/row_rule.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <cmath>
#include <cstring>

#include "absl/time/clock.h"

namespace phitap {
namespace {

constexpr int64_t kFewLines = 4;
constexpr int64_t kManyLines = 16;
constexpr int64_t kBlockLines = 64;

// Lines whose results are compared, in whichever company.
int64_t ProbeLines(const RowRule& rule) {
  return rule.kind == RowRule::Kind::kMultipleOf4 ? kFewLines : kManyLines;
}

// Reproducible values of about unit size, to multiply with `weight`.
at::Tensor Lines(int64_t count, double phase, const at::Tensor& weight) {
  const int64_t width = weight.size(1);
  at::Tensor lines = at::empty({count, width}, at::TensorOptions(at::kFloat));
  float* const out = lines.data_ptr<float>();
  for (int64_t i = 0; i < count * width; ++i) {
    const double x =
        std::sin(12.9898 * static_cast<double>(i) + phase) * 43758.5;
    out[i] = static_cast<float>(2.0 * (x - std::floor(x)) - 1.0);
  }
  return lines.to(weight.scalar_type());
}

bool SameBytes(const at::Tensor& a, const at::Tensor& b) {
  return std::memcmp(a.const_data_ptr(), b.const_data_ptr(),
                     a.numel() * a.element_size()) == 0;
}

// One weight under one rule: the probe's results for a number of lines and a
// place among them.
class Probe {
 public:
  Probe(const Matrix& weight, const RowRule& rule)
      : weight_(weight),
        rule_(rule),
        probe_(Lines(ProbeLines(rule), 0.5, weight.stored)),
        company_(Lines(kBlockLines, 1.5, weight.stored)) {}

  at::Tensor Result(int64_t line_count, int64_t at) const {
    at::Tensor x = at::empty({line_count, probe_.size(1)}, probe_.options());
    const int64_t count = probe_.size(0);
    for (int64_t first = 0; first < line_count; first += count) {
      x.narrow(0, first, count)
          .copy_(company_.narrow(0, first % kBlockLines, count));
    }
    x.narrow(0, at, count).copy_(probe_);
    return RuledLinear(x, weight_, rule_).narrow(0, at, count);
  }

 private:
  Matrix weight_;
  RowRule rule_;
  at::Tensor probe_;
  at::Tensor company_;
};

struct Placement {
  int64_t line_count;
  int64_t at;
};

// Where results could change: few lines, then many. The first is the reference.
std::vector<Placement> Placements(const RowRule& rule) {
  switch (rule.kind) {
    case RowRule::Kind::kMultipleOf4:
      return {{4, 0},   {8, 4},   {12, 4},   {16, 12},  {20, 8},
              {28, 24}, {36, 32}, {44, 20},  {52, 48},  {64, 36},
              {68, 64}, {84, 40}, {116, 96}, {148, 72}, {204, 160}};
    case RowRule::Kind::kExactly64:
      return {{64, 0}, {64, 16}, {64, 48}};
    default:
      return {{16, 0},  {32, 16},  {48, 16},  {64, 48},
              {80, 32}, {112, 96}, {144, 64}, {208, 160}};
  }
}

bool Holds(const RowRule& rule, const std::vector<Matrix>& weights,
           absl::Time deadline) {
  const std::vector<Placement> placements = Placements(rule);
  std::vector<at::Tensor> expected;
  for (size_t i = 0; i < placements.size(); ++i) {
    for (size_t w = 0; w < weights.size(); ++w) {
      // The first comparison is made however slow the machine is.
      if (i > 1 && absl::Now() > deadline) return true;
      const auto [line_count, at] = placements[i];
      if (i == 0) {
        const Matrix stored = {.stored = weights[w].stored};
        expected.push_back(Probe(stored, rule).Result(line_count, at));
        if (!weights[w].is_packed()) continue;
      }
      const at::Tensor result = Probe(weights[w], rule).Result(line_count, at);
      if (!SameBytes(result, expected[w])) return false;
    }
  }
  return true;
}

}  // namespace

int64_t LineMultiple(const RowRule& rule) {
  switch (rule.kind) {
    case RowRule::Kind::kMultipleOf4:
      return kFewLines;
    case RowRule::Kind::kExactly64:
      return kBlockLines;
    default:
      return kManyLines;
  }
}

at::Tensor RuledLinear(const at::Tensor& x, const Matrix& weight,
                       const RowRule& rule) {
  if (rule.kind != RowRule::Kind::kExactly64 || x.size(0) == kBlockLines) {
    return Times(x, weight);
  }
  TORCH_CHECK(x.size(0) % kBlockLines == 0, "lines that fill no block");
  at::Tensor out = at::empty({x.size(0), weight.stored.size(0)}, x.options());
  for (int64_t first = 0; first < x.size(0); first += kBlockLines) {
    out.narrow(0, first, kBlockLines)
        .copy_(Times(x.narrow(0, first, kBlockLines), weight));
  }
  return out;
}

RowRule MeasureRowRule(const std::vector<Matrix>& weights,
                       absl::Duration budget) {
  const absl::Time deadline = absl::Now() + budget;
  for (const auto kind :
       {RowRule::Kind::kMultipleOf4, RowRule::Kind::kMultipleOf16,
        RowRule::Kind::kExactly64}) {
    const RowRule rule{.kind = kind};
    if (Holds(rule, weights, deadline)) return rule;
  }
  return {.kind = RowRule::Kind::kAlone, .batch_invariant = false};
}

}  // namespace phitap
