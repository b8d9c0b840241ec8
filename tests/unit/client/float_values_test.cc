#include "client/cpp/float_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace phitap::client {
namespace {

TEST(FromFloat16, ReadsNormalsSubnormalsAndSpecialValues) {
  EXPECT_EQ(FromFloat16(0x3c00), 1.0F);
  EXPECT_EQ(FromFloat16(0xc100), -2.5F);
  EXPECT_EQ(FromFloat16(0x7bff), 65504.0F);
  EXPECT_EQ(FromFloat16(0x0400), std::ldexp(1.0F, -14));
  EXPECT_EQ(FromFloat16(0x0001), std::ldexp(1.0F, -24));
  EXPECT_EQ(FromFloat16(0x83ff), -std::ldexp(1023.0F, -24));
  EXPECT_EQ(FromFloat16(0xfc00), -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(FromFloat16(0x7e01)));
  EXPECT_TRUE(std::signbit(FromFloat16(0x8000)));
}

// The compiler's own binary16, for every bit pattern.
TEST(FromFloat16, AgreesWithTheCompilerOnEveryValue) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const float ours = FromFloat16(static_cast<uint16_t>(bits));
    const auto theirs = static_cast<float>(
        std::bit_cast<_Float16>(static_cast<uint16_t>(bits)));
    if (std::isnan(theirs)) {
      EXPECT_TRUE(std::isnan(ours)) << bits;
    } else {
      EXPECT_EQ(std::bit_cast<uint32_t>(ours), std::bit_cast<uint32_t>(theirs))
          << bits;
    }
  }
}

TEST(FromBfloat16, IsTheUpperHalfOfAFloat) {
  EXPECT_EQ(FromBfloat16(0x3f80), 1.0F);
  EXPECT_EQ(FromBfloat16(0xc020), -2.5F);
  EXPECT_EQ(FromBfloat16(0x7f80), std::numeric_limits<float>::infinity());
}

TEST(ElementAt, ReadsEveryElementType) {
  const auto tensor_of = [](DType dtype, auto... values) {
    const std::vector<std::common_type_t<decltype(values)...>> list = {
        values...};
    return CopyOf(dtype, {static_cast<int64_t>(list.size())},
                  {reinterpret_cast<const std::byte*>(list.data()),
                   list.size() * sizeof(list[0])});
  };
  using testing::ElementsAre;
  EXPECT_THAT(ElementsAt(tensor_of(DType::kF32, 1.5F, -2.0F), 0, 2),
              ElementsAre(1.5, -2));
  EXPECT_THAT(ElementsAt(tensor_of(DType::kI64, int64_t{-5}, int64_t{7}), 0, 2),
              ElementsAre(-5, 7));
  EXPECT_THAT(ElementsAt(tensor_of(DType::kI32, 3, -4), 1, 1), ElementsAre(-4));
  EXPECT_THAT(
      ElementsAt(tensor_of(DType::kBF16, uint16_t{0x3f80}, uint16_t{0}), 0, 2),
      ElementsAre(1, 0));
  EXPECT_THAT(ElementsAt(tensor_of(DType::kF16, uint16_t{0x3c00}), 0, 1),
              ElementsAre(1));
  EXPECT_THAT(ElementsAt(tensor_of(DType::kBool, uint8_t{1}), 0, 1),
              ElementsAre(1));
}

}  // namespace
}  // namespace phitap::client
