#include "server/model/line_loops.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "server/model/element.h"

namespace phitap {
namespace {

constexpr int64_t kLongest = 203;

template <typename T>
class LineLoops : public testing::Test {
 protected:
  std::vector<T> Values(int64_t count) {
    std::normal_distribution<float> normal(0.0f, 3.0f);
    std::vector<T> values(count);
    for (T& value : values) value = T(normal(random_));
    return values;
  }
  static bool Same(const T& a, const T& b) {
    return std::memcmp(&a, &b, sizeof(T)) == 0;
  }
  std::mt19937 random_{7};
};
using Elements = testing::Types<float, c10::BFloat16, c10::Half>;
TYPED_TEST_SUITE(LineLoops, Elements);

TYPED_TEST(LineLoops, RoundAnElementAloneAsAmongOthers) {
  using T = TypeParam;
  const std::vector<T> gate = this->Values(kLongest);
  const std::vector<T> up = this->Values(kLongest);
  for (int64_t count = 1; count <= kLongest; ++count) {
    std::vector<T> silu(count), neurons(count);
    SiluLine(gate.data(), silu.data(), count);
    SwiGluLine(gate.data(), up.data(), neurons.data(), count);
    for (int64_t i = 0; i < count; ++i) {
      T alone;
      SiluLine(&gate[i], &alone, 1);
      EXPECT_TRUE(this->Same(alone, silu[i]));
      SwiGluLine(&gate[i], &up[i], &alone, 1);
      EXPECT_TRUE(this->Same(alone, neurons[i]));
      EXPECT_TRUE(this->Same(T(float(up[i]) * float(silu[i])), neurons[i]));
    }
  }
}

TYPED_TEST(LineLoops, RotateEachHeadAndLetTheRestPass) {
  using T = TypeParam;
  const HeadsOfLine shape{.heads = 3, .head_dim = 20, .rotary_dims = 14};
  const std::vector<T> x = this->Values(60);
  const std::vector<T> cos = this->Values(14);
  const std::vector<T> sin = this->Values(14);
  std::vector<T> out(60);
  RotateLine(x.data(), cos.data(), sin.data(), out.data(), shape);
  for (int64_t i = 0; i < 60; ++i) {
    const int64_t j = i % 20;
    T expected = x[i];
    if (j < 14) {
      const float other = j < 7 ? -float(x[i + 7]) : float(x[i - 7]);
      expected = T(float(T(float(x[i]) * float(cos[j]))) +
                   float(T(other * float(sin[j]))));
    }
    EXPECT_TRUE(this->Same(out[i], expected)) << i;
  }
}

TYPED_TEST(LineLoops, NormalizeWithTwoRoundings) {
  using T = TypeParam;
  const std::vector<T> x = this->Values(kLongest);
  const std::vector<T> weight = this->Values(kLongest);
  std::vector<T> out(kLongest);
  std::vector<float> scratch(kLongest);
  RmsNormLine(x.data(), weight.data(), out.data(), kLongest, 1e-5f,
              scratch.data());
  double squares = 0.0;
  for (const T& value : x) squares += double(float(value)) * float(value);
  const double scale = 1.0 / std::sqrt(squares / kLongest + 1e-5);
  for (int64_t i = 0; i < kLongest; ++i) {
    const double exact = float(x[i]) * scale * float(weight[i]);
    EXPECT_NEAR(float(out[i]), exact,
                1.5 * std::numeric_limits<T>::epsilon() * std::abs(exact));
  }
}

TYPED_TEST(LineLoops, FindAnElementThatIsNotFinite) {
  using T = TypeParam;
  for (int64_t at = 0; at < kLongest; ++at) {
    std::vector<T> x = this->Values(kLongest);
    x[at] = std::numeric_limits<T>::max();
    EXPECT_TRUE(AllFinite(x.data(), kLongest));
    x[at] = std::numeric_limits<T>::quiet_NaN();
    EXPECT_FALSE(AllFinite(x.data(), kLongest));
    x[at] = -std::numeric_limits<T>::infinity();
    EXPECT_FALSE(AllFinite(x.data(), kLongest));
  }
}

TYPED_TEST(LineLoops, LetNanThrough) {
  using T = TypeParam;
  const T nan = std::numeric_limits<T>::quiet_NaN();
  const T one = T(1.0f);
  float scratch;
  T out;
  SiluLine(&nan, &out, 1);
  EXPECT_TRUE(std::isnan(float(out)));
  SwiGluLine(&one, &nan, &out, 1);
  EXPECT_TRUE(std::isnan(float(out)));
  RmsNormLine(&nan, &one, &out, 1, 1e-5f, &scratch);
  EXPECT_TRUE(std::isnan(float(out)));
}

TEST(Silu, IsWithinAFewUnitsInTheLastPlace) {
  for (double x = -87.0; x < 87.0; x += 0.00137) {
    const auto gate = static_cast<float>(x);
    float out;
    SiluLine(&gate, &out, 1);
    const double exact = gate / (1.0 + std::exp(-double(gate)));
    EXPECT_NEAR(out, exact, 3e-7 * std::abs(exact)) << x;
  }
}

TEST(Silu, TakesTheLimitsOfLibtorch) {
  const float gates[] = {200.0f, -200.0f, INFINITY, -INFINITY, 0.0f, -0.0f};
  float out[6];
  SiluLine(gates, out, 6);
  EXPECT_EQ(out[0], 200.0f);
  EXPECT_EQ(out[1], 0.0f);
  EXPECT_TRUE(std::signbit(out[1]));
  EXPECT_EQ(out[2], INFINITY);
  EXPECT_TRUE(std::isnan(out[3]));
  EXPECT_EQ(out[4], 0.0f);
  EXPECT_TRUE(std::signbit(out[5]));
}

template <typename T>
void ExpectConversionsOfC10() {
  for (uint32_t bits = 0; bits < 0x10000u; ++bits) {
    const T x(static_cast<uint16_t>(bits), T::from_bits());
    const auto expected = static_cast<float>(x);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(ToFloat(x)));
    } else {
      EXPECT_EQ(std::bit_cast<uint32_t>(ToFloat(x)),
                std::bit_cast<uint32_t>(expected));
    }
  }
  std::mt19937 random(3);
  for (int i = 0; i < 2'000'000; ++i) {
    // All exponents, with ties to even among them.
    uint32_t bits = static_cast<uint32_t>(random());
    if (i % 2 == 0) bits = (bits & 0xfffff000u) | (i % 4 == 0 ? 0x1000u : 0u);
    if (i % 3 == 0) bits = (bits & 0xffff0000u) | 0x8000u;
    const auto x = std::bit_cast<float>(bits);
    T stored;
    Store(x, &stored);
    const T expected(x);
    if (std::isnan(x)) {
      EXPECT_TRUE(std::isnan(static_cast<float>(stored)));
    } else {
      ASSERT_EQ(stored.x, expected.x) << bits;
    }
  }
}

TEST(Element, ConvertsBfloat16AsC10) {
  ExpectConversionsOfC10<c10::BFloat16>();
}
TEST(Element, ConvertsFloat16AsC10) { ExpectConversionsOfC10<c10::Half>(); }

}  // namespace
}  // namespace phitap
