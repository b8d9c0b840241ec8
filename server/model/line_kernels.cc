// SPDX-License-Identifier: Apache-2.0
#include "server/model/line_kernels.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/tensor.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "server/model/line_loops.h"

namespace phitap {
namespace {

// Elements that are worth a thread's while.
constexpr int64_t kGrainElements = 32768;

// Calls `loop(T{})` with the element type of `x`.
template <typename Loop>
void ForElementType(const at::Tensor& x, const Loop& loop) {
  switch (x.scalar_type()) {
    case at::kFloat:
      return loop(float{});
    case at::kBFloat16:
      return loop(c10::BFloat16{});
    case at::kHalf:
      return loop(c10::Half{});
    default:
      TORCH_CHECK(false, "no line kernels for ", x.scalar_type());
  }
}

template <typename Work>
void ForLines(int64_t count, int64_t elements_per_line, const Work& work) {
  const int64_t grain = std::max<int64_t>(
      1, kGrainElements / std::max<int64_t>(1, elements_per_line));
  at::parallel_for(0, count, grain, work);
}

// The lines of a [T, …] tensor.
template <typename T>
struct Lines {
  explicit Lines(const at::Tensor& x)
      : first(x.data_ptr<T>()), stride(x.stride(0)) {}
  T* operator[](int64_t i) const { return first + i * stride; }
  T* first;
  int64_t stride;
};

void CheckLines(const at::Tensor& x) {
  int64_t expected = 1;
  for (int64_t d = x.dim() - 1; d > 0; --d) {
    TORCH_CHECK(x.size(d) == 1 || x.stride(d) == expected,
                "a line must be contiguous");
    expected *= x.size(d);
  }
}

at::Tensor EmptyLike(const at::Tensor& x) {
  return at::empty(x.sizes(), x.options());
}

}  // namespace

at::Tensor RmsNormLines(const at::Tensor& x, const at::Tensor& weight,
                        double epsilon) {
  CheckLines(x);
  at::Tensor out = EmptyLike(x);
  const int64_t width = x.size(1);
  ForElementType(x, [&](auto element) {
    using T = decltype(element);
    const Lines<T> in(x), to(out);
    const T* scale = weight.const_data_ptr<T>();
    ForLines(x.size(0), width, [&](int64_t begin, int64_t end) {
      const auto scratch = std::make_unique_for_overwrite<float[]>(width);
      for (int64_t i = begin; i < end; ++i) {
        RmsNormLine(in[i], scale, to[i], width, static_cast<float>(epsilon),
                    scratch.get());
      }
    });
  });
  return out;
}

at::Tensor SiluLines(const at::Tensor& gate) {
  CheckLines(gate);
  at::Tensor out = EmptyLike(gate);
  ForElementType(gate, [&](auto element) {
    using T = decltype(element);
    const Lines<T> in(gate), to(out);
    const int64_t width = gate.size(1);
    ForLines(gate.size(0), width, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) SiluLine(in[i], to[i], width);
    });
  });
  return out;
}

at::Tensor SwiGluLines(const at::Tensor& gate, const at::Tensor& up) {
  CheckLines(gate);
  CheckLines(up);
  at::Tensor out = EmptyLike(gate);
  ForElementType(gate, [&](auto element) {
    using T = decltype(element);
    const Lines<T> gates(gate), ups(up), to(out);
    const int64_t width = gate.size(1);
    ForLines(gate.size(0), width, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        SwiGluLine(gates[i], ups[i], to[i], width);
      }
    });
  });
  return out;
}

at::Tensor RotateLines(const at::Tensor& x, const at::Tensor& cos,
                       const at::Tensor& sin) {
  CheckLines(x);
  at::Tensor out = EmptyLike(x);
  const HeadsOfLine shape{
      .heads = x.size(1), .head_dim = x.size(2), .rotary_dims = cos.size(1)};
  ForElementType(x, [&](auto element) {
    using T = decltype(element);
    const Lines<T> in(x), cosines(cos), sines(sin), to(out);
    ForLines(x.size(0), shape.heads * shape.head_dim,
             [&](int64_t begin, int64_t end) {
               for (int64_t i = begin; i < end; ++i) {
                 RotateLine(in[i], cosines[i], sines[i], to[i], shape);
               }
             });
  });
  return out;
}

std::vector<int64_t> CopyToHeads(const at::Tensor& x, int64_t first,
                                 int64_t count, const at::Tensor& tiles) {
  const int64_t heads = x.size(1);
  const int64_t width = x.size(2);
  std::vector<char> finite(count, 1);
  ForElementType(x, [&](auto element) {
    using T = decltype(element);
    const Lines<T> in(x);
    T* const to = tiles.data_ptr<T>();
    const int64_t from_stride = x.stride(1);
    const int64_t to_stride = tiles.stride(0);
    ForLines(count, heads * width, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        for (int64_t head = 0; head < heads; ++head) {
          const T* const from = in[first + i] + head * from_stride;
          if (!AllFinite(from, width)) finite[i] = 0;
          std::memcpy(to + head * to_stride + i * width, from,
                      width * sizeof(T));
        }
      }
    });
  });
  std::vector<int64_t> not_finite;
  for (int64_t i = 0; i < count; ++i) {
    if (!finite[i]) not_finite.push_back(i);
  }
  return not_finite;
}

at::Tensor GatherLines(const at::Tensor& x, const std::vector<int64_t>& indices,
                       int64_t line_count) {
  if (at::GradMode::is_enabled() && x.requires_grad()) {
    TORCH_CHECK(line_count == static_cast<int64_t>(indices.size()),
                "recorded lines are not filled up");
    return x.index_select(0, at::tensor(at::ArrayRef<int64_t>(indices)));
  }
  CheckLines(x);
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes[0] = line_count;
  at::Tensor out = at::empty(sizes, x.options());
  if (line_count == 0) return out;
  const int64_t line_bytes = out.stride(0) * out.element_size();
  const int64_t from_stride = x.stride(0) * x.element_size();
  const auto* const from = static_cast<const char*>(x.const_data_ptr());
  auto* const to = static_cast<char*>(out.data_ptr());
  const auto given = static_cast<int64_t>(indices.size());
  ForLines(given, out.stride(0), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      std::memcpy(to + i * line_bytes, from + indices[i] * from_stride,
                  line_bytes);
    }
  });
  std::memset(to + given * line_bytes, 0, (line_count - given) * line_bytes);
  return out;
}

at::Tensor PaddedLines(const at::Tensor& x, int64_t line_count) {
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes[0] = line_count;
  at::Tensor out = at::empty(sizes, x.options());
  CopyLines(x, out.narrow(0, 0, x.size(0)));
  out.narrow(0, x.size(0), line_count - x.size(0)).zero_();
  return out;
}

void CopyLines(const at::Tensor& from, const at::Tensor& to) {
  TORCH_CHECK(
      from.is_contiguous() && to.is_contiguous() && from.sizes() == to.sizes(),
      "lines that differ in shape or stand apart");
  std::memcpy(to.data_ptr(), from.const_data_ptr(), from.nbytes());
}

}  // namespace phitap
