// SPDX-License-Identifier: Apache-2.0
#include "server/model/matrix.h"

#include <ATen/core/List.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/linear.h>

#include <cstdint>
#include <optional>

namespace phitap {
namespace {

// These operators have no function of their own in libtorch's headers.
template <typename Signature>
auto Operator(const char* name) {
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow(name, "")
      .typed<Signature>();
}

using PackSignature = at::Tensor(const at::Tensor&, std::optional<int64_t>);
using ProductSignature = at::Tensor(
    const at::Tensor& x, const at::Tensor& packed,
    const std::optional<at::Tensor>& bias, c10::string_view activation,
    c10::List<std::optional<at::Scalar>> scalars,
    std::optional<c10::string_view> algorithm);

}  // namespace

bool WorthPacking(at::ScalarType dtype) {
  static const bool has_bfloat16 =
      Operator<bool()>("mkldnn::_is_mkldnn_bf16_supported").call();
  return dtype == at::kBFloat16 && has_bfloat16;
}

void Pack(Matrix& matrix) {
  static const auto pack =
      Operator<PackSignature>("mkldnn::_reorder_linear_weight");
  matrix.packed = pack.call(matrix.stored, std::nullopt);
}

at::Tensor Times(const at::Tensor& x, const Matrix& matrix) {
  if (!matrix.is_packed()) return at::linear(x, matrix.stored);
  static const auto product =
      Operator<ProductSignature>("mkldnn::_linear_pointwise");
  return product.call(x, matrix.packed, /*bias=*/std::nullopt, "none",
                      c10::List<std::optional<at::Scalar>>(),
                      /*algorithm=*/std::nullopt);
}

}  // namespace phitap
