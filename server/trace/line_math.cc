// SPDX-License-Identifier: Apache-2.0
#include "server/trace/line_math.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "server/model/line_kernels.h"

namespace phitap {
namespace {

// Elements of a call of an elementwise function: a multiple of every vector's
// width, and too few for libtorch to share among threads.
constexpr int64_t kBlock = 2048;

// A product with another number of columns follows no row rule.
constexpr int64_t kWeightMultiple = 16;

int64_t RoundUp(int64_t n, int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

// [..., m] → [n, m]; a number is one line.
at::Tensor AsLines(const at::Tensor& x) {
  const int64_t width = x.dim() == 0 ? 1 : x.size(-1);
  return x.reshape({x.numel() / width, width}).contiguous();
}

}  // namespace

// The last elements of a call go another way through libtorch than those that
// fill a vector, and round differently. So all calls are of one size.
at::Tensor MapLines(const at::Tensor& x,
                    absl::FunctionRef<void(at::Tensor&)> function) {
  const int64_t count = x.numel();
  at::Tensor padded = at::zeros({RoundUp(count, kBlock)}, x.options());
  padded.narrow(0, 0, count).view(x.sizes()).copy_(x);
  for (int64_t first = 0; first < count; first += kBlock) {
    at::Tensor block = padded.narrow(0, first, kBlock);
    function(block);
  }
  return padded.narrow(0, 0, count).view(x.sizes());
}

at::Tensor ReduceLines(
    const at::Tensor& x, at::IntArrayRef dimensions,
    absl::FunctionRef<at::Tensor(const at::Tensor&)> reduction) {
  std::vector<int64_t> order;
  std::vector<int64_t> kept = x.sizes().vec();
  int64_t width = 1;
  const auto goes = [&](int64_t d) {
    return dimensions.empty() || std::find(dimensions.begin(), dimensions.end(),
                                           d) != dimensions.end();
  };
  for (int64_t d = 0; d < x.dim(); ++d) {
    if (!goes(d)) order.push_back(d);
  }
  for (int64_t d = 0; d < x.dim(); ++d) {
    if (!goes(d)) continue;
    order.push_back(d);
    width *= x.size(d);
    kept[d] = 1;
  }
  at::Tensor lines =
      x.permute(order).reshape({x.numel() / width, width}).contiguous();
  // One long line would be shared among threads, lines are not.
  const bool alone = lines.size(0) == 1;
  if (alone) lines = at::cat({lines, at::zeros_like(lines)});
  const at::Tensor reduced = reduction(lines);
  return (alone ? reduced.narrow(0, 0, 1) : reduced).reshape(kept);
}

at::Tensor LinearLines(const at::Tensor& x, const at::Tensor& weight,
                       const RowRule& rule) {
  const at::Tensor lines = AsLines(x);
  const int64_t count = lines.size(0);
  const at::Tensor padded =
      // The rule was found for the model's own, wide weights.
      PaddedLines(
          lines, RoundUp(count, std::max(LineMultiple(rule), kWeightMultiple)));
  const int64_t out = weight.size(0);
  const int64_t even = out / kWeightMultiple * kWeightMultiple;
  std::vector<at::Tensor> parts;
  if (even > 0) {
    parts.push_back(
        RuledLinear(padded, {.stored = weight.narrow(0, 0, even)}, rule));
  }
  if (even < out) {
    const at::Tensor rest = weight.narrow(0, even, out - even).contiguous();
    parts.push_back(RuledLinear(padded,
                                {.stored = PaddedLines(rest, kWeightMultiple)},
                                rule)
                        .narrow(1, 0, out - even));
  }
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = out;
  const at::Tensor product = parts.size() == 1 ? parts[0] : at::cat(parts, 1);
  return product.narrow(0, 0, count).reshape(shape);
}

at::Tensor SoftmaxLines(const at::Tensor& x) {
  return at::softmax(AsLines(x), -1).view(x.sizes());
}

at::Tensor LogSoftmaxLines(const at::Tensor& x) {
  return at::log_softmax(AsLines(x), -1).view(x.sizes());
}

}  // namespace phitap
