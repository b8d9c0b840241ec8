#include "server/plan/program/inline_tensor.h"

#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/plan/program/shapes.h"
#include "server/plan/saturating.h"
#include "server/plan/wire_type.h"

namespace phitap {
namespace {

constexpr absl::string_view kTypes =
    "DATA_TYPE_F32, DATA_TYPE_F16, DATA_TYPE_BF16, DATA_TYPE_I32, "
    "DATA_TYPE_I64";

template <typename Element>
Element ElementAt(absl::Span<const std::byte> bytes, int64_t index) {
  Element element;
  std::memcpy(&element, bytes.data() + index * sizeof(Element),
              sizeof(Element));
  return element;
}

// Whether the bits are of neither infinity nor NaN: their exponent has a 0.
template <typename Bits>
int64_t FirstNotFinite(absl::Span<const std::byte> bytes, Bits exponent) {
  const int64_t count = static_cast<int64_t>(bytes.size() / sizeof(Bits));
  for (int64_t i = 0; i < count; ++i) {
    if ((ElementAt<Bits>(bytes, i) & exponent) == exponent) return i;
  }
  return -1;
}

int64_t FirstNotFinite(const HostTensor& tensor) {
  switch (tensor.dtype) {
    case DType::kF32:
      return FirstNotFinite<uint32_t>(tensor.bytes, 0x7f800000u);
    case DType::kF16:
      return FirstNotFinite<uint16_t>(tensor.bytes, 0x7c00u);
    case DType::kBF16:
      return FirstNotFinite<uint16_t>(tensor.bytes, 0x7f80u);
    default:
      return -1;
  }
}

template <typename Integer>
absl::StatusOr<HostTensor> Float32Of(const HostTensor& tensor,
                                     absl::string_view field) {
  const int64_t count = ElementCount(tensor.shape);
  std::vector<float> numbers(count);
  for (int64_t i = 0; i < count; ++i) {
    const Integer integer = ElementAt<Integer>(tensor.bytes, i);
    numbers[i] = static_cast<float>(integer);
    // In double, so that 2⁶³ does not overflow on its way back.
    if (std::abs(static_cast<double>(numbers[i])) < 0x1p63 &&
        static_cast<Integer>(static_cast<double>(numbers[i])) == integer) {
      continue;
    }
    return InvalidField(
        {.field = std::string(field),
         .problem = absl::StrCat("element ", i, " is ", integer,
                                 ", which float32 does not hold"),
         .valid = "integers that float32 holds, up to 16777216"});
  }
  return CopyOf(
      DType::kF32, tensor.shape,
      absl::MakeConstSpan(reinterpret_cast<const std::byte*>(numbers.data()),
                          numbers.size() * sizeof(float)));
}

absl::Status CheckShape(const Shape& shape, absl::string_view field) {
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] >= 1) continue;
    return InvalidField({.field = absl::StrCat(field, ".shape[", i, "]"),
                         .problem = absl::StrCat("size ", shape[i]),
                         .valid = "1 or more"});
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<HostTensor> FloatingTensor(HostTensor tensor,
                                          absl::string_view field) {
  switch (tensor.dtype) {
    case DType::kI32:
      return Float32Of<int32_t>(tensor, field);
    case DType::kI64:
      return Float32Of<int64_t>(tensor, field);
    case DType::kBool:
      return InvalidField({.field = std::string(field),
                           .problem = "its elements are booleans",
                           .valid = "numbers"});
    default:
      return tensor;
  }
}

absl::StatusOr<HostTensor> InlineTensor(const v1::Tensor& tensor,
                                        absl::string_view field) {
  const std::optional<DType> dtype = FromWire(tensor.dtype());
  if (!dtype.has_value() || dtype == DType::kBool) {
    return InvalidField(
        {.field = absl::StrCat(field, ".dtype"),
         .problem = absl::StrCat(v1::DataType_Name(tensor.dtype())),
         .valid = std::string(kTypes)});
  }
  const Shape shape(tensor.shape().begin(), tensor.shape().end());
  RETURN_IF_ERROR(CheckShape(shape, field));
  const int64_t size_bytes =
      SaturatingMultiply(SaturatingElements(shape), SizeInBytes(*dtype));
  const std::string& data = tensor.data();
  if (static_cast<int64_t>(data.size()) != size_bytes) {
    return InvalidField(
        {.field = absl::StrCat(field, ".data"),
         .problem = absl::StrCat(data.size(), " bytes for ", Name(*dtype), " ",
                                 ShapeText(shape)),
         .valid = absl::StrCat(size_bytes)});
  }
  HostTensor value =
      CopyOf(*dtype, shape,
             absl::MakeConstSpan(
                 reinterpret_cast<const std::byte*>(data.data()), data.size()));
  const int64_t infinite = FirstNotFinite(value);
  if (infinite >= 0) {
    return InvalidField(
        {.field = absl::StrCat(field, ".data"),
         .problem = absl::StrCat("element ", infinite, " is not finite"),
         .valid = "finite numbers"});
  }
  return FloatingTensor(std::move(value), absl::StrCat(field, ".data"));
}

}  // namespace phitap
