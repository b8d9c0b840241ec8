#include "server/trace/pattern_capture.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>

#include <limits>

#include "gtest/gtest.h"

namespace phitap {
namespace {

constexpr int64_t kHeads = 3;
constexpr int64_t kTokens = 40;
constexpr int64_t kTile = 32;

struct Tiles {
  at::Tensor whole;                // [H, tokens, tokens]
  std::vector<at::Tensor> values;  // [H, 32, 32 (t + 1)]
};

// Random scores in two tiles, the second with dummies past the prompt, and the
// whole value that they are of.
Tiles MakeTiles(double invisible) {
  Tiles tiles{.whole = at::full({kHeads, kTokens, kTokens}, invisible)};
  for (int64_t first : {int64_t{0}, kTile}) {
    at::Tensor value = at::rand({kHeads, kTile, first + kTile});
    const int64_t queries = std::min(kTile, kTokens - first);
    const int64_t keys = std::min(first + kTile, kTokens);
    tiles.whole.narrow(1, first, queries)
        .narrow(2, 0, keys)
        .copy_(value.narrow(1, 0, queries).narrow(2, 0, keys));
    tiles.values.push_back(value);
  }
  return tiles;
}

PatternBlock Block(int64_t tile) {
  return {.row = 0,
          .first_query = tile * kTile,
          .query_count = std::min(kTile, kTokens - tile * kTile)};
}

at::Tensor Gather(const PlannedCapture& capture, const Tiles& tiles) {
  PatternCapture pattern(capture.point.hook, capture.selection, kTokens);
  for (int64_t tile : {0, 1}) {
    if (pattern.Wants(Block(tile))) {
      pattern.Add(Block(tile), tiles.values[tile]);
    }
  }
  EXPECT_TRUE(pattern.Complete());
  return pattern.Take();
}

PlannedCapture Probabilities(ResolvedSelection selection = {}) {
  return {.point = {Hook::kAttentionProbabilities, 0}, .selection = selection};
}

TEST(PatternCapture, PutsTheBlocksTogether) {
  const Tiles tiles = MakeTiles(0.0);
  EXPECT_TRUE(at::equal(Gather(Probabilities(), tiles), tiles.whole));
}

TEST(PatternCapture, FillsScoresThatNoBlockReachesWithMinusInfinity) {
  const Tiles tiles = MakeTiles(-std::numeric_limits<double>::infinity());
  const PlannedCapture scores{.point = {Hook::kAttentionScores, 0}};
  EXPECT_TRUE(at::equal(Gather(scores, tiles), tiles.whole));
}

TEST(PatternCapture, KeepsTheOrderOfSelectedQueriesKeysAndHeads) {
  const Tiles tiles = MakeTiles(0.0);
  const PlannedCapture capture = Probabilities({
      .heads = std::vector<int64_t>{2, 0},
      .queries = std::vector<int64_t>{39, 3, 33, 0},
      .keys = std::vector<int64_t>{35, 1, 2},
  });
  const at::Tensor gathered = Gather(capture, tiles);
  for (size_t h = 0; h < 2; ++h) {
    for (size_t q = 0; q < 4; ++q) {
      for (size_t k = 0; k < 3; ++k) {
        EXPECT_EQ(gathered[h][q][k].item<float>(),
                  tiles
                      .whole[(*capture.selection.heads)[h]]
                            [(*capture.selection.queries)[q]]
                            [(*capture.selection.keys)[k]]
                      .item<float>());
      }
    }
  }
}

TEST(PatternCapture, WantsOnlyBlocksWithAQueryAskedFor) {
  const PlannedCapture capture =
      Probabilities({.queries = std::vector<int64_t>{33}});
  PatternCapture pattern(capture.point.hook, capture.selection, kTokens);
  EXPECT_FALSE(pattern.Wants(Block(0)));
  EXPECT_TRUE(pattern.Wants(Block(1)));
  pattern.Add(Block(1), at::rand({kHeads, kTile, 2 * kTile}));
  EXPECT_FALSE(pattern.Wants(Block(1)));
}

}  // namespace
}  // namespace phitap
