#include "server/trace/select.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/stack.h>

#include "gtest/gtest.h"

namespace phitap {
namespace {

// Row 1 of a wave: lines 3 to 7 hold the prompt's positions 2, 3, 5, 8 and 9.
TokenLayout::Row SparseRow() {
  return {
      .row = 1, .begin = 3, .positions = {2, 3, 5, 8, 9}, .contiguous = false};
}

PlannedCapture Of(Hook hook, ResolvedSelection selection = {}) {
  return {.point = {hook, 0}, .read_at = {hook, 0}, .selection = selection};
}

TEST(Pick, ViewsConsecutiveIndices) {
  const at::Tensor value = at::rand({5, 4});
  EXPECT_TRUE(Pick(value, 0, {1, 2, 3}).is_alias_of(value));
  EXPECT_TRUE(at::equal(Pick(value, 0, {1, 2, 3}), value.narrow(0, 1, 3)));
}

TEST(Pick, KeepsTheOrderAskedFor) {
  const at::Tensor value = at::arange(5);
  EXPECT_TRUE(at::equal(Pick(value, 0, {3, 0, 4}),
                        at::stack({value[3], value[0], value[4]})));
}

TEST(SelectRow, ShowsARowOnlyItsOwnLines) {
  const at::Tensor value = at::rand({16, 4});
  const at::Tensor part = SelectRow(value, SparseRow(), Of(Hook::kLayerOutput));
  EXPECT_TRUE(at::equal(part, value.narrow(0, 3, 5)));
  EXPECT_TRUE(part.is_alias_of(value));
}

TEST(SelectRow, FindsPositionsInALayoutThatHoldsOnlySome) {
  const at::Tensor value = at::rand({16, 4});
  const at::Tensor part = SelectRow(
      value, SparseRow(),
      Of(Hook::kLayerOutput, {.positions = std::vector<int64_t>{9, 5, 2}}));
  EXPECT_TRUE(at::equal(part, at::stack({value[7], value[5], value[3]})));
}

TEST(SelectRow, PutsHeadsBeforePositionsWhereTheTableDoes) {
  const at::Tensor value = at::rand({16, 4, 6});  // [T, heads, head_dim]
  const at::Tensor part = SelectRow(
      value, SparseRow(),
      Of(Hook::kAttentionQueries, {.positions = std::vector<int64_t>{3, 8},
                                   .heads = std::vector<int64_t>{2, 0},
                                   .features = std::vector<int64_t>{1, 2}}));
  ASSERT_EQ(part.sizes(), (std::vector<int64_t>{2, 2, 2}));
  EXPECT_EQ(part[0][1][0].item<float>(), value[6][2][1].item<float>());
  EXPECT_EQ(part[1][0][1].item<float>(), value[4][0][2].item<float>());
}

TEST(SelectRow, PutsHeadsAfterPositionsWhereTheTableDoes) {
  const at::Tensor value = at::rand({16, 4, 6});
  const at::Tensor part = SelectRow(
      value, SparseRow(),
      Of(Hook::kAttentionHeadOutputs, {.heads = std::vector<int64_t>{3}}));
  ASSERT_EQ(part.sizes(), (std::vector<int64_t>{5, 1, 6}));
  EXPECT_TRUE(at::equal(part.squeeze(1), value.narrow(0, 3, 5).select(1, 3)));
}

TEST(SelectRow, GivesAVectorWhereTheValueHasNoPositions) {
  const at::Tensor value = at::rand({3, 10});  // one line a row
  const TokenLayout::Row row{.row = 2, .begin = 2, .positions = {7}};
  const at::Tensor part = SelectRow(
      value, row,
      Of(Hook::kNextTokenProbs, {.features = std::vector<int64_t>{9, 1}}));
  EXPECT_TRUE(at::equal(part, at::stack({value[2][9], value[2][1]})));
}

}  // namespace
}  // namespace phitap
