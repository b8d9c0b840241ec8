#include "server/trace/host_view.h"

#include <c10/util/Exception.h>

#include <memory>
#include <utility>

namespace phitap {

c10::ScalarType ScalarTypeOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return c10::ScalarType::Float;
    case DType::kF16:
      return c10::ScalarType::Half;
    case DType::kBF16:
      return c10::ScalarType::BFloat16;
    case DType::kI64:
      return c10::ScalarType::Long;
    case DType::kI32:
      return c10::ScalarType::Int;
    case DType::kBool:
      return c10::ScalarType::Bool;
  }
  TORCH_CHECK(false, "unknown element type");
}

DType DTypeOf(c10::ScalarType type) {
  switch (type) {
    case c10::ScalarType::Float:
      return DType::kF32;
    case c10::ScalarType::Half:
      return DType::kF16;
    case c10::ScalarType::BFloat16:
      return DType::kBF16;
    case c10::ScalarType::Long:
      return DType::kI64;
    case c10::ScalarType::Int:
      return DType::kI32;
    case c10::ScalarType::Bool:
      return DType::kBool;
    default:
      TORCH_CHECK(false, "no wire type for ", type);
  }
}

HostTensor ToHost(const at::Tensor& value) {
  at::Tensor contiguous = value.contiguous();
  if (contiguous.nbytes() * 2 < contiguous.storage().nbytes()) {
    contiguous = contiguous.clone();
  }
  auto owner = std::make_shared<const at::Tensor>(std::move(contiguous));
  return {
      .dtype = DTypeOf(owner->scalar_type()),
      .shape = owner->sizes().vec(),
      .bytes = absl::MakeConstSpan(
          static_cast<const std::byte*>(owner->const_data_ptr()),
          owner->nbytes()),
      .owner = owner,
  };
}

}  // namespace phitap
