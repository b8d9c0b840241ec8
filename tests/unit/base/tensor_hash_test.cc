#include "server/base/tensor_hash.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace phitap {
namespace {

std::vector<std::byte> Bytes(size_t count) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) {
    bytes[i] = static_cast<std::byte>(i * 131 + (i >> 8));
  }
  return bytes;
}

// Values that python-xxhash gives: other clients compare with theirs.
TEST(TensorHash, IsXxh3) {
  EXPECT_EQ(HashTensor({}), 0x2d06800538d394c2u);
  EXPECT_EQ(HashTensor(Bytes(100)), 0x387363ce0e6084aau);
  EXPECT_EQ(HashTensor(Bytes(1'000'000)), 0x8519bd3bc3b314a3u);
}

TEST(TensorHash, IsTheSameInPieces) {
  const std::vector<std::byte> bytes = Bytes(300'000);
  for (const size_t piece : {1, 63, 240, 241, 1024, 4099, 65536, 299'999}) {
    TensorHash hash;
    absl::Span<const std::byte> left = bytes;
    while (!left.empty()) {
      hash.Add(left.subspan(0, piece));
      left.remove_prefix(std::min(piece, left.size()));
    }
    EXPECT_EQ(hash.Value(), HashTensor(bytes)) << piece;
  }
}

TEST(TensorHash, BeginsAnew) {
  TensorHash hash;
  hash.Add(Bytes(1000));
  hash.Reset();
  EXPECT_EQ(hash.Value(), HashTensor({}));
  hash.Add(Bytes(500));
  EXPECT_EQ(hash.Value(), HashTensor(Bytes(500)));
}

}  // namespace
}  // namespace phitap
