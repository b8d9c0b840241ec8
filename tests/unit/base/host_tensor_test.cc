#include "server/base/host_tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace phitap {
namespace {

using testing::ElementsAre;

TEST(ElementCount, MultipliesTheDimensions) {
  EXPECT_EQ(ElementCount({2, 3, 4}), 24);
  EXPECT_EQ(ElementCount({5, 0}), 0);
  EXPECT_EQ(ElementCount({}), 1);
}

TEST(CopyOf, OutlivesAndIgnoresItsSource) {
  std::vector<std::byte> source = {std::byte{1}, std::byte{2}, std::byte{3},
                                   std::byte{4}};
  const HostTensor tensor = CopyOf(DType::kF16, {2}, source);
  source.assign(4, std::byte{9});
  source.clear();
  source.shrink_to_fit();
  EXPECT_EQ(tensor.dtype, DType::kF16);
  EXPECT_THAT(tensor.shape, ElementsAre(2));
  EXPECT_THAT(tensor.bytes, ElementsAre(std::byte{1}, std::byte{2},
                                        std::byte{3}, std::byte{4}));
}

TEST(HostTensor, SharesItsBytesWithItsCopies) {
  HostTensor first = CopyOf(DType::kBool, {1}, std::vector{std::byte{7}});
  const HostTensor second = first;
  first = HostTensor();
  EXPECT_EQ(second.owner.use_count(), 1);
  EXPECT_THAT(second.bytes, ElementsAre(std::byte{7}));
}

}  // namespace
}  // namespace phitap
