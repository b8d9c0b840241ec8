// SPDX-License-Identifier: Apache-2.0
#include "server/trace/edit.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <cstdint>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/trace/select.h"
#include "tests/unit/trace/edit_fixture.h"

namespace phitap {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Lines 3 to 7 of a wave's matrix of 12 hold positions 2, 3, 5, 8 and 9.
TokenLayout::Row SparseRow() {
  return {
      .row = 1, .begin = 3, .positions = {2, 3, 5, 8, 9}, .contiguous = false};
}
constexpr int64_t kLines = 12;

// One part, which there must be.
WrittenPart PartOf(const PlannedWrite& write, const TokenLayout::Row& row,
                   const RunSequence& sequence) {
  std::vector<WrittenPart> parts = PartsOf(write, row, sequence);
  EXPECT_THAT(parts, SizeIs(1));
  return parts.front();
}

struct Layout {
  Hook hook;
  Indices line;  // sizes of a line
};
const Layout kLayouts[] = {
    {Hook::kLayerOutput, {24}},        {Hook::kAttentionQkv, {80}},
    {Hook::kAttentionQueries, {6, 8}}, {Hook::kAttentionKeys, {2, 8}},
    {Hook::kAttentionPremix, {6, 8}},  {Hook::kMlpGateUp, {40}},
    {Hook::kMlpNeurons, {20}},         {Hook::kLogits, {50}},
};

at::Tensor RandomLines(const Indices& line, at::ScalarType type) {
  Indices sizes = {kLines};
  sizes.insert(sizes.end(), line.begin(), line.end());
  return at::randn(sizes).to(type);
}

// What `part`, laid out as a capture, says of `value`, element by element.
at::Tensor WithPart(const at::Tensor& value, const WrittenPart& part,
                    const at::Tensor& edited) {
  at::Tensor expected = value.clone();
  const ResolvedSelection& selection = part.write->selection;
  const auto index = [](const std::optional<Indices>& chosen, int64_t i) {
    return chosen.has_value() ? (*chosen)[i] : i;
  };
  const bool by_head = SeqDimension(part.write->point.hook) == 1;
  for (size_t n = 0; n < part.lines.size(); ++n) {
    const auto line = static_cast<int64_t>(n);
    at::Tensor to = expected[part.lines[n]];
    const at::Tensor from = edited.select(by_head ? 1 : 0, line);
    if (to.dim() == 1) {
      for (int64_t f = 0; f < from.size(0); ++f) {
        to[index(selection.features, f)].copy_(from[f]);
      }
      continue;
    }
    for (int64_t h = 0; h < from.size(0); ++h) {
      for (int64_t f = 0; f < from.size(1); ++f) {
        to[index(selection.heads, h)][index(selection.features, f)].copy_(
            from[h][f]);
      }
    }
  }
  return expected;
}

TEST(EditedMatrix, TakesAndPutsAnyPartOfEveryLayout) {
  std::mt19937 random(1);
  const PromptTokens prompt(10);
  for (int round = 0; round < 20; ++round) {
    for (const Layout& layout : kLayouts) {
      ResolvedSelection selection;
      if (round % 2 != 0) selection.positions = SomeOf(10, random);
      if (round % 3 != 0) {
        selection.features = SomeOf(layout.line.back(), random);
      }
      if (round % 5 != 0 && layout.line.size() == 2) {
        selection.heads = SomeOf(layout.line.front(), random);
      }
      const PlannedWrite write = WriteAt(layout.hook, selection);
      const std::vector<WrittenPart> parts =
          PartsOf(write, SparseRow(), prompt.sequence());
      if (parts.empty()) continue;  // none of the positions is there
      const at::Tensor value = RandomLines(layout.line, at::kBFloat16);
      const at::Tensor before = value.clone();
      EditedMatrix matrix(value);
      const at::Tensor taken = matrix.Take(parts[0]);
      ASSERT_TRUE(SameBytes(WithPart(value, parts[0], taken), value));
      const at::Tensor edited = at::randn(taken.sizes());
      matrix.Put(parts[0], edited);
      EXPECT_TRUE(SameBytes(
          matrix.value(), WithPart(value, parts[0], edited.to(at::kBFloat16))))
          << FullName(write.point) << ", round " << round;
      EXPECT_TRUE(SameBytes(value, before));
    }
  }
}

TEST(EditedMatrix, TakesWhatACaptureOfThePartShows) {
  const PromptTokens prompt(10);
  const PlannedWrite write =
      WriteAt(Hook::kAttentionQueries, {.positions = Indices{9, 2, 3},
                                        .heads = Indices{4, 0},
                                        .features = Indices{7, 1}});
  const at::Tensor value = RandomLines({6, 8}, at::kFloat);
  const WrittenPart part = PartOf(write, SparseRow(), prompt.sequence());
  EXPECT_TRUE(at::equal(
      EditedMatrix(value).Take(part),
      SelectRow(value, SparseRow(), write.point.hook, write.selection)));
}

TEST(EditedMatrix, KeepsTheStridesOfASlice) {
  const PromptTokens prompt(10);
  const at::Tensor fused = at::randn({kLines, 10 * 8});
  const at::Tensor keys = fused.narrow(1, 48, 16).view({kLines, 2, 8});
  const PlannedWrite write = WriteAt(Hook::kAttentionKeysPreRotary);
  EditedMatrix matrix(keys);
  matrix.Put(PartOf(write, SparseRow(), prompt.sequence()), at::zeros({}));
  EXPECT_EQ(matrix.value().strides(), keys.strides());
  EXPECT_EQ(matrix.value().sizes(), keys.sizes());
  EXPECT_TRUE(at::equal(matrix.value().narrow(0, 3, 5), at::zeros({5, 2, 8})));
  EXPECT_TRUE(SameBytes(matrix.value().narrow(0, 0, 3), keys.narrow(0, 0, 3)));
  EXPECT_TRUE(SameBytes(matrix.value().narrow(0, 8, 4), keys.narrow(0, 8, 4)));
}

TEST(EditedMatrix, CopiesOnceForAllWritesOfAVisit) {
  const PromptTokens prompt(10);
  const PlannedWrite first = WriteAt(Hook::kLayerOutput);
  const PlannedWrite second =
      WriteAt(Hook::kLayerOutput, {.positions = Indices{5}});
  const at::Tensor value = RandomLines({24}, at::kFloat);
  EditedMatrix matrix(value);
  EXPECT_TRUE(matrix.value().is_same(value));
  const WrittenPart one = PartOf(first, SparseRow(), prompt.sequence());
  matrix.Put(one, at::full({}, 2.0));
  const at::Tensor copy = matrix.value();
  const at::Tensor taken = matrix.Take(one);
  matrix.Put(PartOf(second, SparseRow(), prompt.sequence()), at::full({}, 3.0));
  EXPECT_TRUE(matrix.value().is_same(copy));
  EXPECT_EQ(matrix.value()[5][0].item<float>(), 3);  // position 5
  EXPECT_EQ(matrix.value()[6][0].item<float>(), 2);
  EXPECT_EQ(taken[2][0].item<float>(), 2);  // as it stood when it was taken
}

TEST(EditedMatrix, KeepsTheBitsOfAValueThatIsOnlyMoved) {
  const PlannedWrite write = WriteAt(Hook::kMlpNeurons);
  // Every pattern of 16 bits, NaNs with their payloads too.
  const at::Tensor moved = at::arange(5 * 20, at::TensorOptions(at::kInt))
                               .mul(653)
                               .to(at::kShort)
                               .view(at::kBFloat16)
                               .view({5, 20});
  EditedMatrix matrix(RandomLines({20}, at::kBFloat16));
  matrix.Put(PartOf(write, SparseRow(), PromptTokens(10).sequence()), moved);
  EXPECT_TRUE(SameBytes(matrix.value().narrow(0, 3, 5), moved));
}

TEST(EditedMatrix, SlicesValuesAndConditionsToThePositionsThatAreThere) {
  const PromptTokens prompt(10);
  const PlannedWrite write =
      WriteAt(Hook::kAttentionValues, {.positions = Indices{1, 8, 4, 3}});
  const WrittenPart part = PartOf(write, SparseRow(), prompt.sequence());
  EXPECT_THAT(part.positions, ElementsAre(8, 3));
  EXPECT_THAT(part.kept, ElementsAre(1, 3));
  const at::Tensor given = at::randn({2, 4, 8});
  EXPECT_TRUE(
      at::equal(KeptOf(given, part),
                at::stack({given.select(1, 1), given.select(1, 3)}, 1)));
  // A vector along the last dimension, and a value of the part's own size.
  const at::Tensor vector = given[0][0];
  EXPECT_TRUE(KeptOf(vector, part).is_same(vector));
  const at::Tensor sliced = given.narrow(1, 0, 2);
  EXPECT_TRUE(KeptOf(sliced, part).is_same(sliced));

  const at::Tensor value = RandomLines({2, 8}, at::kFloat);
  EditedMatrix matrix(value);
  matrix.Put(part, given, at::tensor({1.f, 0.f, 1.f, 1.f}).view({4, 1}));
  EXPECT_TRUE(SameBytes(matrix.value()[6], value[6]));            // 8
  EXPECT_TRUE(SameBytes(matrix.value()[4], given.select(1, 3)));  // 3
}

TEST(EditedMatrix, LeavesThePartWhereTheConditionIsNull) {
  const PlannedWrite write = WriteAt(Hook::kLayerOutput);
  const WrittenPart part =
      PartOf(write, SparseRow(), PromptTokens(10).sequence());
  const at::Tensor value = RandomLines({24}, at::kFloat);
  EditedMatrix matrix(value);
  matrix.Put(part, at::zeros({}), at::zeros({1, 1}));
  EXPECT_TRUE(matrix.value().is_same(value));
  matrix.Put(part, at::zeros({}), at::full({}, -0.5));
  EXPECT_TRUE(at::equal(matrix.value()[3], at::zeros({24})));
}

TEST(EditedMatrix, RefusesAConditionOfAnotherSize) {
  const PlannedWrite write = WriteAt(Hook::kLayerOutput);
  const WrittenPart part =
      PartOf(write, SparseRow(), PromptTokens(10).sequence());
  EditedMatrix matrix(RandomLines({24}, at::kFloat));
  try {
    matrix.Put(part, at::zeros({}), at::ones({3}));
    FAIL() << "a condition of 3 for 5 positions";
  } catch (const c10::ValueError& error) {
    EXPECT_THAT(error.what_without_backtrace(),
                HasSubstr("runs[0].interventions[0].when: a condition of [3]"));
  }
}

TEST(EditedMatrix, LetsGradientsThroughToWhatIsLeftAndWhatIsWritten) {
  const PromptTokens prompt(10);
  const PlannedWrite write =
      WriteAt(Hook::kAttentionQueries, {.positions = Indices{9, 2},
                                        .heads = Indices{0, 3},
                                        .features = Indices{1, 6, 7}});
  const PlannedWrite next =
      WriteAt(Hook::kAttentionQueries, {.positions = Indices{2}});
  const at::Tensor value = RandomLines({6, 8}, at::kFloat).requires_grad_(true);
  const at::Tensor added = at::randn({2, 2, 3}).requires_grad_(true);
  const WrittenPart part = PartOf(write, SparseRow(), prompt.sequence());
  const WrittenPart again = PartOf(next, SparseRow(), prompt.sequence());
  EditedMatrix matrix(value);
  matrix.Put(part, matrix.Take(part) * added);
  matrix.Put(again, matrix.Take(again) * 3);
  const at::Tensor weights = at::randn(value.sizes());
  (matrix.value() * weights).sum().backward();

  at::Tensor factors = at::ones(value.sizes());
  at::Tensor written = at::zeros(value.sizes());
  at::Tensor expected_added = at::zeros({2, 2, 3});
  const Indices lines = {7, 3};
  for (int64_t h = 0; h < 2; ++h) {
    for (int64_t n = 0; n < 2; ++n) {
      for (int64_t f = 0; f < 3; ++f) {
        const int64_t head = (*write.selection.heads)[h];
        const int64_t feature = (*write.selection.features)[f];
        factors[lines[n]][head][feature] = added.detach()[h][n][f];
        expected_added[h][n][f] = value.detach()[lines[n]][head][feature] *
                                  weights[lines[n]][head][feature] *
                                  (lines[n] == 3 ? 3 : 1);
      }
    }
  }
  factors[3] *= 3;
  EXPECT_TRUE(at::allclose(value.grad(), weights * factors));
  EXPECT_TRUE(at::allclose(added.grad(), expected_added));
}

TEST(PartsOf, TakesTheStepsThatAreSelectedOneByOne) {
  const std::vector<int32_t> ids = {1, 1, 1, 7, 8, 7, 9};  // prompt of 3
  const RunSequence sequence = {.ids = ids, .prompt_length = 3};
  const TokenLayout::Row row = {.positions = {0, 1, 2, 3, 4, 5, 6}};
  const auto steps_of = [&](const StepSelection& steps) {
    std::vector<int> found;
    const PlannedWrite write = WriteAt(Hook::kLayerOutput, {}, steps);
    for (const WrittenPart& part : PartsOf(write, row, sequence)) {
      found.push_back(part.step);
      if (part.step > 0) {
        EXPECT_THAT(part.positions, ElementsAre(2 + part.step));
        EXPECT_THAT(part.lines, ElementsAre(2 + part.step));
        EXPECT_EQ(part.selected_count, 1);
      } else {
        EXPECT_THAT(part.positions, ElementsAre(0, 1, 2));
      }
    }
    return found;
  };
  EXPECT_THAT(steps_of({}), ElementsAre(0));
  EXPECT_THAT(steps_of({.every_step = true}), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(steps_of({.prompt = false, .steps = {2, 4}}), ElementsAre(2, 4));
  EXPECT_THAT(steps_of({.prompt = false, .every_step = true, .token_ids = {7}}),
              ElementsAre(1, 3));
  EXPECT_THAT(steps_of({.prompt = false, .steps = {2, 3}, .token_ids = {7}}),
              ElementsAre(3));
}

TEST(PartsOf, FindsNothingWhereNoSelectedPositionIsHeld) {
  EXPECT_THAT(PartsOf(WriteAt(Hook::kLayerOutput, {.positions = Indices{4, 7}}),
                      SparseRow(), PromptTokens(10).sequence()),
              IsEmpty());
}

}  // namespace
}  // namespace phitap
