// A weight that lines are multiplied with.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_MODEL_MATRIX_H_
#define PHITAP_SERVER_MODEL_MATRIX_H_

#include <ATen/core/Tensor.h>

namespace phitap {

struct Matrix {
  at::Tensor stored;  // [out, in]
  // The same numbers as oneDNN's products read them: without it they rearrange
  // the matrix in every call, which for a few lines takes longer than the
  // product. Undefined where it is not packed; only Times can read it.
  at::Tensor packed;

  bool is_packed() const { return packed.defined(); }
};

// Whether it pays, in this element type and on this CPU.
bool WorthPacking(at::ScalarType dtype);
// Packs a contiguous matrix of a type for which it pays, into as many bytes
// again.
void Pack(Matrix& matrix);

// x · matrixᵀ: [T, in] → [T, out], from what is packed, if it is.
at::Tensor Times(const at::Tensor& x, const Matrix& matrix);

}  // namespace phitap

#endif  // PHITAP_SERVER_MODEL_MATRIX_H_
