#include "server/trace/reduce.h"

#include <ATen/Functions.h>

#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace phitap {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(TopOf, GivesTheLargestBestFirst) {
  const at::Tensor value = at::tensor({1.f, 5.f, -2.f, 4.f, 3.f}).view({1, 5});
  const Top top = TopOf(value, 3);
  EXPECT_TRUE(at::equal(top.values, at::tensor({5.f, 4.f, 3.f}).view({1, 3})));
  EXPECT_TRUE(
      at::equal(top.indices, at::tensor({1, 3, 4}, at::kInt).view({1, 3})));
}

TEST(TopOf, BreaksTiesTowardsTheSmallerIndex) {
  const at::Tensor value = at::tensor({2.f, 7.f, 7.f, 2.f, 7.f}).view({1, 5});
  EXPECT_TRUE(at::equal(TopOf(value, 4).indices,
                        at::tensor({1, 2, 4, 0}, at::kInt).view({1, 4})));
}

TEST(TopOf, CountsNanAsLargest) {
  const at::Tensor value =
      at::tensor({1.f, kNan, std::numeric_limits<float>::infinity(), kNan})
          .view({1, 4});
  EXPECT_TRUE(at::equal(TopOf(value, 3).indices,
                        at::tensor({1, 3, 2}, at::kInt).view({1, 3})));
}

TEST(TopOf, AgreesWithASortOnRandomValuesOfEveryShape) {
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{7}, {5, 100}, {2, 3, 40}}) {
    const at::Tensor value = at::rand(shape).to(at::kBFloat16);
    const int64_t k = 6;
    const auto [sorted, order] =
        at::sort(value, /*stable=*/true, /*dim=*/-1, /*descending=*/true);
    const Top top = TopOf(value, k);
    EXPECT_TRUE(at::equal(top.values, sorted.narrow(-1, 0, k)));
    EXPECT_TRUE(at::equal(top.indices.to(at::kLong), order.narrow(-1, 0, k)));
  }
}

TEST(TopOf, ReturnsEveryEntryWhereAsked) {
  const at::Tensor value = at::rand({3, 9});
  EXPECT_TRUE(at::equal(TopOf(value, 9).values,
                        std::get<0>(at::sort(value, -1, /*descending=*/true))));
}

}  // namespace
}  // namespace phitap
