#include "server/checkpoint/weight_digest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace phitap {
namespace {

ModelSpec Spec() {
  return {.architecture = "Phi3ForCausalLM",
          .num_layers = 2,
          .sliding_window = 8,
          .longrope = LongRope{.short_factor = {1.0f}, .long_factor = {2.0f}}};
}

HostTensor Bytes(const std::vector<std::byte>& bytes) {
  return CopyOf(DType::kF32, {static_cast<int64_t>(bytes.size()) / 4}, bytes);
}

std::string DigestOf(const std::string& name, const HostTensor& tensor,
                     const ModelSpec& spec = Spec()) {
  WeightDigest digest(spec);
  digest.Add(name, tensor);
  return digest.Finish();
}

TEST(WeightDigest, IsTheSameForTheSameWeights) {
  const std::vector<std::byte> bytes(1000, std::byte{1});
  const std::string digest = DigestOf("a", Bytes(bytes));
  EXPECT_EQ(DigestOf("a", Bytes(bytes)), digest);
  EXPECT_THAT(digest, testing::MatchesRegex("[0-9a-f]+"));
  EXPECT_EQ(digest.size(), 32u);
}

TEST(WeightDigest, ChangesWithNameShapeElementTypeAndOrder) {
  HostTensor tensor = Bytes(std::vector<std::byte>(16, std::byte{1}));
  std::set<std::string> digests = {DigestOf("a", tensor),
                                   DigestOf("b", tensor)};
  tensor.shape = {2, 2};
  digests.insert(DigestOf("a", tensor));
  tensor.shape = {4};
  tensor.dtype = DType::kI32;
  digests.insert(DigestOf("a", tensor));
  EXPECT_EQ(digests.size(), 4u);
}

TEST(WeightDigest, ChangesWithAnyByteOfASmallTensor) {
  std::vector<std::byte> bytes(400);
  std::set<std::string> digests = {DigestOf("a", Bytes(bytes))};
  for (std::byte& byte : bytes) {
    byte = std::byte{1};
    digests.insert(DigestOf("a", Bytes(bytes)));
    byte = std::byte{0};
  }
  EXPECT_EQ(digests.size(), 401u);
}

TEST(WeightDigest, SamplesBothEndsAndPiecesOfALargeTensor) {
  std::vector<std::byte> bytes(1 << 20);
  std::set<std::string> digests = {DigestOf("a", Bytes(bytes))};
  // The sample has 16 pieces of 4 KiB, so that of any run of 128 KiB at least
  // one is in it.
  for (size_t start = 0; start < bytes.size(); start += 1 << 17) {
    std::fill_n(bytes.begin() + start, 1 << 17, std::byte{1});
    digests.insert(DigestOf("a", Bytes(bytes)));
    std::fill_n(bytes.begin() + start, 1 << 17, std::byte{0});
  }
  for (const size_t end : {size_t{0}, bytes.size() - 1}) {
    bytes[end] = std::byte{1};
    digests.insert(DigestOf("a", Bytes(bytes)));
    bytes[end] = std::byte{0};
  }
  EXPECT_EQ(digests.size(), 1u + 8u + 2u);
}

TEST(WeightDigest, ChangesWithWhatTheSpecDecidesOfTheForward) {
  const HostTensor tensor = Bytes(std::vector<std::byte>(16));
  std::set<std::string> digests = {DigestOf("a", tensor)};
  std::vector<ModelSpec> specs(8, Spec());
  specs[0].num_layers = 3;
  specs[1].sliding_window.reset();
  specs[2].rope_theta = 5.0;
  specs[3].rms_norm_eps = 1e-6;
  specs[4].longrope.reset();
  specs[5].longrope->long_factor = {3.0f};
  specs[6].longrope->attention_factor = 1.5;
  specs[7].longrope->original_max_positions = 7;
  for (const ModelSpec& spec : specs) {
    digests.insert(DigestOf("a", tensor, spec));
  }
  EXPECT_EQ(digests.size(), 9u);
}

TEST(WeightDigest, IgnoresWhatDoesNotReachTheForward) {
  const HostTensor tensor = Bytes(std::vector<std::byte>(16));
  ModelSpec spec = Spec();
  spec.eos_ids = {7};
  spec.pad_id = 3;
  EXPECT_EQ(DigestOf("a", tensor, spec), DigestOf("a", tensor));
}

}  // namespace
}  // namespace phitap
