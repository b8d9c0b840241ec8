#include "client/cpp/wire_dtype.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace phitap::client {

absl::StatusOr<DType> FromWire(v1::DataType dtype) {
  switch (dtype) {
    case v1::DATA_TYPE_F32:
      return DType::kF32;
    case v1::DATA_TYPE_F16:
      return DType::kF16;
    case v1::DATA_TYPE_BF16:
      return DType::kBF16;
    case v1::DATA_TYPE_I64:
      return DType::kI64;
    case v1::DATA_TYPE_I32:
      return DType::kI32;
    case v1::DATA_TYPE_BOOL:
      return DType::kBool;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("element type ", static_cast<int>(dtype),
                       " is not one this client knows"));
  }
}

v1::DataType ToWire(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return v1::DATA_TYPE_F32;
    case DType::kF16:
      return v1::DATA_TYPE_F16;
    case DType::kBF16:
      return v1::DATA_TYPE_BF16;
    case DType::kI64:
      return v1::DATA_TYPE_I64;
    case DType::kI32:
      return v1::DATA_TYPE_I32;
    case DType::kBool:
      return v1::DATA_TYPE_BOOL;
  }
  return v1::DATA_TYPE_UNSPECIFIED;
}

std::string WireName(v1::DataType dtype) {
  if (dtype == v1::DATA_TYPE_UNSPECIFIED) return "unspecified";
  absl::StatusOr<DType> known = FromWire(dtype);
  return known.ok() ? std::string(Name(*known))
                    : absl::StrCat(static_cast<int>(dtype));
}

}  // namespace phitap::client
