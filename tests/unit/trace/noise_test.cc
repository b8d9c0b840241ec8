// SPDX-License-Identifier: Apache-2.0
#include "server/trace/noise.h"

#include <ATen/ATen.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"
#include "server/trace/philox.h"
#include "server/trace/select.h"
#include "tests/support/model_specs.h"

namespace phitap {
namespace {

using Words = std::array<uint32_t, 4>;
constexpr int64_t kTokens = 9;

at::Tensor NoiseOf(Hook hook, const ResolvedSelection& selection = {},
                   uint64_t seed = 7) {
  return StandardNormal(
      PlaceOf(seed, {hook, 2}, selection, TinyGrouped(), kTokens));
}

// The vectors that its authors publish with Random123.
TEST(Philox4x32, GivesThePublishedWords) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(Philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                       {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// Seed 0 and the first element of the first hook point are the first published
// vector's key and counter.
TEST(StandardNormal, IsBoxAndMullersOfTheGeneratorsWords) {
  const at::Tensor noise = StandardNormal({.seed = 0,
                                           .point = {Hook::kInputIds, -1},
                                           .positions = {0},
                                           .heads = {0},
                                           .columns = {0}});
  const double u = (0x6627e8d5 + 1.0) / 4294967296.0;
  const double v = 0xe169c58d / 4294967296.0;
  EXPECT_EQ(noise.item<float>(),
            static_cast<float>(std::sqrt(-2 * std::log(u)) *
                               std::cos(2 * std::numbers::pi * v)));
}

TEST(StandardNormal, HasTheMomentsOfOne) {
  std::vector<int64_t> positions(100);
  std::iota(positions.begin(), positions.end(), 0);
  std::vector<int64_t> columns(3072);
  std::iota(columns.begin(), columns.end(), 0);
  const at::Tensor noise = StandardNormal({.seed = 3,
                                           .point = {Hook::kLayerOutput, 1},
                                           .positions = positions,
                                           .heads = {0},
                                           .columns = columns})
                               .to(at::kDouble);
  // Five standard errors of 307,200 samples each.
  const double error = 5 / std::sqrt(307200.0);
  EXPECT_NEAR(noise.mean().item<double>(), 0, error);
  EXPECT_NEAR(noise.pow(2).mean().item<double>(), 1, error * std::sqrt(2.0));
  EXPECT_NEAR(noise.pow(3).mean().item<double>(), 0, error * std::sqrt(15.0));
  EXPECT_NEAR(noise.pow(4).mean().item<double>(), 3, error * std::sqrt(96.0));
  const at::Tensor neighbours =
      noise.narrow(1, 0, 3071) * noise.narrow(1, 1, 3071);
  EXPECT_NEAR(neighbours.mean().item<double>(), 0, error);
}

TEST(StandardNormal, IsLaidOutAsACapture) {
  EXPECT_EQ(NoiseOf(Hook::kLayerOutput).sizes(), (std::vector<int64_t>{9, 24}));
  EXPECT_EQ(NoiseOf(Hook::kAttentionQueries).sizes(),
            (std::vector<int64_t>{6, 9, 8}));
  EXPECT_EQ(NoiseOf(Hook::kAttentionKeys).sizes(),
            (std::vector<int64_t>{2, 9, 8}));
  EXPECT_EQ(NoiseOf(Hook::kAttentionHeadOutputs).sizes(),
            (std::vector<int64_t>{9, 6, 8}));
  EXPECT_EQ(NoiseOf(Hook::kAttentionScores).sizes(),
            (std::vector<int64_t>{6, 9, 9}));
  EXPECT_EQ(NoiseOf(Hook::kNextTokenProbs).sizes(), (std::vector<int64_t>{50}));
}

TEST(StandardNormal, IsTheSameInEveryPartOfAValue) {
  const std::vector<int64_t> heads = {4, 1};
  const std::vector<int64_t> positions = {8, 0, 3};
  const std::vector<int64_t> columns = {7, 2, 3, 6};
  const at::Tensor by_head = NoiseOf(Hook::kAttentionQueries);
  EXPECT_TRUE(at::equal(
      NoiseOf(Hook::kAttentionQueries,
              {.positions = positions, .heads = heads, .features = columns}),
      Pick(Pick(Pick(by_head, 0, heads), 1, positions), 2, columns)));
  const at::Tensor heads_last = NoiseOf(Hook::kAttentionPremix);
  EXPECT_TRUE(at::equal(
      NoiseOf(Hook::kAttentionPremix,
              {.positions = positions, .heads = heads, .features = columns}),
      Pick(Pick(Pick(heads_last, 0, positions), 1, heads), 2, columns)));
  const at::Tensor pattern = NoiseOf(Hook::kAttentionProbabilities);
  EXPECT_TRUE(at::equal(
      NoiseOf(Hook::kAttentionProbabilities,
              {.heads = heads, .queries = positions, .keys = columns}),
      Pick(Pick(Pick(pattern, 0, heads), 1, positions), 2, columns)));
}

TEST(StandardNormal, IsTheSameInALongerPrompt) {
  const ModelSpec spec = TinyGrouped();
  const HookPoint scores = {Hook::kAttentionScores, 0};
  const at::Tensor small = StandardNormal(PlaceOf(5, scores, {}, spec, 4));
  const at::Tensor large = StandardNormal(PlaceOf(5, scores, {}, spec, 40));
  EXPECT_TRUE(at::equal(small, large.narrow(1, 0, 4).narrow(2, 0, 4)));
}

TEST(StandardNormal, DiffersWithSeedHookLayerPositionAndHead) {
  const auto first = [](uint64_t seed, HookPoint point, int64_t position,
                        int64_t head) {
    return StandardNormal({.seed = seed,
                           .point = point,
                           .positions = {position},
                           .heads = {head},
                           .columns = {0}})
        .item<float>();
  };
  const HookPoint point = {Hook::kAttentionKeys, 1};
  const float here = first(1, point, 0, 0);
  EXPECT_NE(here, first(2, point, 0, 0));
  EXPECT_NE(here, first(1 + (uint64_t{1} << 32), point, 0, 0));
  EXPECT_NE(here, first(1, {Hook::kAttentionValues, 1}, 0, 0));
  EXPECT_NE(here, first(1, {Hook::kAttentionKeys, 2}, 0, 0));
  EXPECT_NE(here, first(1, point, 1, 0));
  EXPECT_NE(here, first(1, point, 0, 1));
}

}  // namespace
}  // namespace phitap
