// The model's elementwise arithmetic on [T, …] matrices, line by line: a line's
// bits depend neither on how many lines there are nor on the threads' shares.
//
// Tensors are float32, bfloat16 or float16 on the CPU. A line's elements are
// contiguous; lines may stand apart (a slice of a wider matrix).
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_MODEL_LINE_KERNELS_H_
#define PHITAP_SERVER_MODEL_LINE_KERNELS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace phitap {

// weight · x / √(mean(x²) + epsilon); x [T, D], weight [D].
at::Tensor RmsNormLines(const at::Tensor& x, const at::Tensor& weight,
                        double epsilon);

// gate / (1 + e^−gate); [T, F].
at::Tensor SiluLines(const at::Tensor& gate);

// up · silu(gate); [T, F].
at::Tensor SwiGluLines(const at::Tensor& gate, const at::Tensor& up);

// x · cos + rotate_half(x) · sin on the first R elements of each head;
// x [T, heads, E], cos and sin [T, R].
at::Tensor RotateLines(const at::Tensor& x, const at::Tensor& cos,
                       const at::Tensor& sin);

// Copies lines [first, first + count) of x [T, heads, E], E contiguous, to
// `tiles` [heads, lines, E], lines [0, count). Returns the indices, from 0, of
// lines with a NaN or an infinity.
std::vector<int64_t> CopyToHeads(const at::Tensor& x, int64_t first,
                                 int64_t count, const at::Tensor& tiles);

// Lines `indices` of x [N, D], then zeros up to `line_count` lines. Gradients
// go through it where libtorch records them and nothing is filled up.
at::Tensor GatherLines(const at::Tensor& x, const std::vector<int64_t>& indices,
                       int64_t line_count);

// x [n, …] contiguous, then zeros up to `line_count` lines.
at::Tensor PaddedLines(const at::Tensor& x, int64_t line_count);

// Copies contiguous lines to contiguous lines of the same shape.
void CopyLines(const at::Tensor& from, const at::Tensor& to);

}  // namespace phitap

#endif  // PHITAP_SERVER_MODEL_LINE_KERNELS_H_
