#include "client/cpp/float_values.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace phitap::client {
namespace {

constexpr int kHalfFractionBits = 10;
constexpr uint16_t kHalfFractionMask = (1 << kHalfFractionBits) - 1;
constexpr int kHalfExponentMask = 0x1f;
constexpr int kHalfBias = 15;

template <typename T>
T Load(const HostTensor& tensor, int64_t index) {
  T value;
  std::memcpy(&value,
              tensor.bytes.data() + index * static_cast<int64_t>(sizeof(T)),
              sizeof(T));
  return value;
}

}  // namespace

float FromBfloat16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

float FromFloat16(uint16_t bits) {
  const int exponent = (bits >> kHalfFractionBits) & kHalfExponentMask;
  const int fraction = bits & kHalfFractionMask;
  float magnitude = 0;
  if (exponent == kHalfExponentMask) {
    magnitude = fraction == 0 ? std::numeric_limits<float>::infinity()
                              : std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == 0) {
    magnitude = std::ldexp(static_cast<float>(fraction),
                           1 - kHalfBias - kHalfFractionBits);
  } else {
    magnitude =
        std::ldexp(static_cast<float>(fraction | 1 << kHalfFractionBits),
                   exponent - kHalfBias - kHalfFractionBits);
  }
  return std::copysign(magnitude, bits & 0x8000 ? -1.0F : 1.0F);
}

double ElementAt(const HostTensor& tensor, int64_t index) {
  switch (tensor.dtype) {
    case DType::kF32:
      return Load<float>(tensor, index);
    case DType::kF16:
      return FromFloat16(Load<uint16_t>(tensor, index));
    case DType::kBF16:
      return FromBfloat16(Load<uint16_t>(tensor, index));
    case DType::kI64:
      return static_cast<double>(Load<int64_t>(tensor, index));
    case DType::kI32:
      return Load<int32_t>(tensor, index);
    case DType::kBool:
      return Load<uint8_t>(tensor, index);
  }
  return std::numeric_limits<double>::quiet_NaN();
}

std::vector<double> ElementsAt(const HostTensor& tensor, int64_t start,
                               int64_t count) {
  std::vector<double> values(count);
  for (int64_t i = 0; i < count; ++i) values[i] = ElementAt(tensor, start + i);
  return values;
}

}  // namespace phitap::client
