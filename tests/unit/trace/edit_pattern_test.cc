// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/model/visibility.h"
#include "server/trace/edit.h"
#include "tests/unit/trace/edit_fixture.h"

namespace phitap {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
constexpr int64_t kHeads = 3;
// Queries 4 to 6 of a prompt of 7 in a block of 4 lines; the last is a dummy.
// Keys are 0 to 7, of which the last is past the prompt.
constexpr PatternBlock kBlock = {.first_query = 4, .query_count = 3};
constexpr int64_t kTokens = 7;

at::Tensor RandomBlock(at::ScalarType type = at::kFloat) {
  return at::randn({kHeads, 4, 8}).to(type);
}

WrittenPart PartOf(const PlannedWrite& write, const RunSequence& sequence) {
  std::vector<WrittenPart> parts = PartsOf(write, kBlock, sequence);
  EXPECT_THAT(parts, SizeIs(1));
  return parts.front();
}

Indices AllOf(int64_t count) {
  Indices all(count);
  for (int64_t i = 0; i < count; ++i) all[i] = i;
  return all;
}

TEST(EditedPattern, WritesWhatIsSelectedAndVisible) {
  std::mt19937 random(2);
  const Indices hidden = {1, 5};
  for (int round = 0; round < 60; ++round) {
    PromptTokens prompt(kTokens);
    RunSequence sequence = prompt.sequence();
    if (round % 3 == 0) sequence.window = 3;
    if (round % 2 == 0) sequence.hidden_positions = hidden;
    ResolvedSelection selection;
    if (round % 4 != 0) selection.heads = SomeOf(kHeads, random);
    if (round % 5 != 0) selection.queries = SomeOf(kTokens, random);
    if (round % 7 != 0) selection.keys = SomeOf(kTokens, random);
    const PlannedWrite write =
        WriteAt(Hook::kAttentionProbabilities, selection);
    const std::vector<WrittenPart> parts = PartsOf(write, kBlock, sequence);
    if (parts.empty()) continue;  // none of the queries is in the block

    // One value for every selected entry, of which the block has some.
    const Indices heads = selection.heads.value_or(AllOf(kHeads));
    const Indices queries = selection.queries.value_or(AllOf(kTokens));
    const Indices keys = selection.keys.value_or(AllOf(kTokens));
    const at::Tensor given = at::randn({static_cast<int64_t>(heads.size()),
                                        static_cast<int64_t>(queries.size()),
                                        static_cast<int64_t>(keys.size())});
    const at::Tensor value = RandomBlock(at::kBFloat16);
    EditedPattern pattern(value);
    pattern.Put(parts[0], sequence, given);

    at::Tensor expected = value.clone();
    const Visibility visibility(sequence.window, sequence.hidden_positions);
    for (size_t h = 0; h < heads.size(); ++h) {
      for (size_t q = 0; q < queries.size(); ++q) {
        for (size_t k = 0; k < keys.size(); ++k) {
          if (queries[q] < 4 || !visibility.Sees(queries[q], keys[k])) continue;
          expected[heads[h]][queries[q] - 4][keys[k]] =
              given[static_cast<int64_t>(h)][static_cast<int64_t>(q)]
                   [static_cast<int64_t>(k)];
        }
      }
    }
    EXPECT_TRUE(SameBytes(pattern.value(), expected)) << "round " << round;
  }
}

TEST(EditedPattern, ShowsEveryKeyOfTheSelectionThoseOutOfSightAsInvisible) {
  const PromptTokens prompt(20);
  const at::Tensor value = RandomBlock();
  for (const auto& [hook, invisible] :
       {std::pair(Hook::kAttentionScores, kMinusInfinity),
        std::pair(Hook::kAttentionProbabilities, 0.f)}) {
    const PlannedWrite all = WriteAt(hook, {.queries = Indices{6, 4}});
    const at::Tensor taken =
        EditedPattern(value).Take(PartOf(all, prompt.sequence()));
    ASSERT_EQ(taken.sizes(), (Indices{kHeads, 2, 20}));
    EXPECT_TRUE(
        at::equal(taken.select(1, 0).narrow(1, 0, 8), value.select(1, 2)));
    EXPECT_TRUE(at::equal(taken.narrow(2, 8, 12),
                          at::full({kHeads, 2, 12}, invisible)));
    const PlannedWrite some =
        WriteAt(hook, {.heads = Indices{2}, .keys = Indices{12, 3}});
    const at::Tensor part =
        EditedPattern(value).Take(PartOf(some, prompt.sequence()));
    ASSERT_EQ(part.sizes(), (Indices{1, 3, 2}));
    EXPECT_EQ(part[0][1][0].item<float>(), invisible);
    EXPECT_EQ(part[0][1][1].item<float>(), value[2][1][3].item<float>());
  }
}

TEST(EditedPattern, TakesAConditionForEachQuery) {
  const PromptTokens prompt(kTokens);
  const PlannedWrite write = WriteAt(Hook::kAttentionScores);
  const at::Tensor value = RandomBlock();
  EditedPattern pattern(value);
  // One a query of the prompt; of the block's, only query 5 is edited.
  pattern.Put(PartOf(write, prompt.sequence()), prompt.sequence(),
              at::full({}, kMinusInfinity),
              at::tensor({1.f, 1.f, 1.f, 1.f, 0.f, 1.f, 0.f}));
  EXPECT_TRUE(SameBytes(pattern.value().select(1, 0), value.select(1, 0)));
  EXPECT_TRUE(SameBytes(pattern.value().select(1, 2), value.select(1, 2)));
  EXPECT_TRUE(at::equal(pattern.value().select(1, 1).narrow(1, 0, 6),
                        at::full({kHeads, 6}, kMinusInfinity)));
  EXPECT_TRUE(SameBytes(pattern.value().select(1, 1).narrow(1, 6, 2),
                        value.select(1, 1).narrow(1, 6, 2)));
}

TEST(EditedPattern, StaysWhereNothingSelectedIsVisible) {
  const PromptTokens prompt(kTokens);
  const PlannedWrite write = WriteAt(
      Hook::kAttentionScores, {.queries = Indices{4}, .keys = Indices{5, 6}});
  const at::Tensor value = RandomBlock();
  EditedPattern pattern(value);
  pattern.Put(PartOf(write, prompt.sequence()), prompt.sequence(),
              at::zeros({}));
  EXPECT_TRUE(pattern.value().is_same(value));
}

TEST(EditedPattern, KeepsItsStridesAndCopiesOnce) {
  const PromptTokens prompt(kTokens);
  const PlannedWrite write = WriteAt(Hook::kAttentionScores);
  const at::Tensor value =
      at::randn({4, kHeads, 9}).transpose(0, 1).narrow(2, 0, 8);
  EditedPattern pattern(value);
  const WrittenPart part = PartOf(write, prompt.sequence());
  pattern.Put(part, prompt.sequence(), at::full({}, 2.0));
  const at::Tensor copy = pattern.value();
  EXPECT_EQ(copy.strides(), value.strides());
  pattern.Put(part, prompt.sequence(), at::full({}, 3.0));
  EXPECT_TRUE(pattern.value().is_same(copy));
  EXPECT_EQ(copy[0][0][0].item<float>(), 3);
}

TEST(EditedPattern, LetsGradientsThrough) {
  const PromptTokens prompt(kTokens);
  const PlannedWrite write =
      WriteAt(Hook::kAttentionProbabilities,
              {.queries = Indices{6}, .keys = Indices{2, 4}});
  const at::Tensor value = RandomBlock().requires_grad_(true);
  EditedPattern pattern(value);
  const WrittenPart part = PartOf(write, prompt.sequence());
  pattern.Put(part, prompt.sequence(), pattern.Take(part) * 5);
  pattern.value().sum().backward();
  at::Tensor expected = at::ones({kHeads, 4, 8});
  expected.select(1, 2).select(1, 2).fill_(5);
  expected.select(1, 2).select(1, 4).fill_(5);
  EXPECT_TRUE(at::equal(value.grad(), expected));
}

TEST(PartsOf, TakesAGeneratedTokensQueryWithTheKeysUpToItsOwn) {
  const std::vector<int32_t> ids = {1, 1, 1, 7, 8};  // prompt of 3
  const RunSequence sequence = {.ids = ids, .prompt_length = 3};
  const PlannedWrite write =
      WriteAt(Hook::kAttentionScores, {.heads = Indices{1}},
              {.prompt = false, .every_step = true});
  const PatternBlock block = {.first_query = 4, .query_count = 1};
  const std::vector<WrittenPart> parts = PartsOf(write, block, sequence);
  ASSERT_THAT(parts, SizeIs(1));
  EXPECT_EQ(parts[0].step, 2);
  EXPECT_THAT(parts[0].lines, ElementsAre(0));
  EXPECT_EQ(EditedPattern(at::randn({kHeads, 1, 32})).Take(parts[0]).sizes(),
            (Indices{1, 1, 5}));
  EXPECT_THAT(PartsOf(write, {.first_query = 0, .query_count = 3}, sequence),
              IsEmpty());
}

}  // namespace
}  // namespace phitap
