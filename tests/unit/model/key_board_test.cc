// Rows of a tree take turns on the same buffers.
#include "server/model/key_board.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace phitap {
namespace {

constexpr int64_t kKeyHeads = 2;
constexpr int64_t kWidth = 4;
constexpr int64_t kTokens = 40;

class KeyBoards : public testing::Test {
 protected:
  // Keys that are the owner's number, values its negative.
  static KeyLines LinesOf(int owner) {
    const at::Tensor keys = at::full({kTokens, kKeyHeads, kWidth},
                                     static_cast<double>(owner), at::kFloat);
    return {.keys = keys, .values = -keys};
  }

  // Whose lines the board holds, of each position.
  std::vector<int> Show(KeyBoard& board,
                        const std::vector<OwnedStretch>& owners,
                        int64_t from = 0) {
    asked_.clear();
    const KeyTiles& tiles = board.Show(owners, from, [&](int owner) {
      asked_.push_back(owner);
      return LinesOf(owner);
    });
    return HeldBy(tiles);
  }

  static std::vector<int> HeldBy(const KeyTiles& tiles) {
    const KeyLines lines = tiles.Lines();
    EXPECT_TRUE(at::equal(lines.keys, -lines.values));
    std::vector<int> held;
    for (int64_t i = 0; i < kTokens; ++i) {
      held.push_back(static_cast<int>(lines.keys[i][1][3].item<float>()));
    }
    return held;
  }

  static std::vector<int> Runs(const std::vector<std::pair<int, int64_t>>& of) {
    std::vector<int> all;
    for (const auto& [owner, count] : of) all.insert(all.end(), count, owner);
    return all;
  }

  std::vector<int> asked_;
};

TEST_F(KeyBoards, LayOnlyWhatIsNotThereYet) {
  KeyTiles tiles;
  tiles.Reserve(kTokens, LinesOf(1).keys);
  KeyBoard board(tiles);
  EXPECT_EQ(Show(board, {{.owner = 1, .begin = 0, .end = 40}}),
            Runs({{1, 40}}));
  EXPECT_EQ(Show(board, {{.owner = 1, .begin = 0, .end = 30},
                         {.owner = 2, .begin = 30, .end = 40}}),
            Runs({{1, 30}, {2, 10}}));
  EXPECT_EQ(asked_, std::vector<int>({2}));
  // What the second has laid is the first's again up to where the third begins.
  EXPECT_EQ(Show(board, {{.owner = 1, .begin = 0, .end = 35},
                         {.owner = 3, .begin = 35, .end = 40}}),
            Runs({{1, 35}, {3, 5}}));
  EXPECT_EQ(asked_, std::vector<int>({1, 3}));
  EXPECT_EQ(Show(board, {{.owner = 1, .begin = 0, .end = 35},
                         {.owner = 3, .begin = 35, .end = 40}}),
            Runs({{1, 35}, {3, 5}}));
  EXPECT_TRUE(asked_.empty());
  EXPECT_EQ(Show(board, {{.owner = 4, .begin = 0, .end = 40}}, 32),
            Runs({{1, 32}, {4, 8}}));
}

TEST_F(KeyBoards, PutBackWhatWasLent) {
  KeyTiles tiles;
  const KeyLines own = LinesOf(1);
  tiles.Put(own.keys, own.values, own.Range(0, 34), Visibility({}, {}));
  const std::vector<int> before = HeldBy(tiles);
  {
    KeyBoard board(tiles, {.owner = 1, .begin = 0, .end = 34},
                   {.begin = 20, .end = 40});
    EXPECT_EQ(Show(board, {{.owner = 1, .begin = 0, .end = 20},
                           {.owner = 2, .begin = 20, .end = 40}}),
              Runs({{1, 20}, {2, 20}}));
    EXPECT_EQ(Show(board, {{.owner = 1, .begin = 0, .end = 33},
                           {.owner = 3, .begin = 33, .end = 40}}),
              Runs({{1, 33}, {3, 7}}));
    EXPECT_EQ(asked_, std::vector<int>({3}));
    EXPECT_NE(HeldBy(tiles), before);
  }
  EXPECT_EQ(HeldBy(tiles), before);
}

}  // namespace
}  // namespace phitap
