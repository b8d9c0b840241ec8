#include "server/trace/host_view.h"

#include <c10/util/Exception.h>

#include <memory>
#include <utility>

namespace phitap {

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

at::Tensor ToKeep(const at::Tensor& value) {
  at::Tensor contiguous = value.contiguous();
  return contiguous.nbytes() * 2 < contiguous.storage().nbytes()
             ? contiguous.clone()
             : contiguous;
}

HostTensor ToHost(const at::Tensor& value) {
  auto owner = std::make_shared<const at::Tensor>(ToKeep(value));
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
