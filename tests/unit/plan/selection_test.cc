#include "server/plan/captures/selection.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>

#include "server/plan/captures/index_set.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/plan/planning.h"

namespace phitap {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;

// Python's own rules, by walking over the axis: what list(range(size))[i] and
// [start:stop:step] give, without clamping.
std::vector<int64_t> NaiveIndices(const v1::IndexSet& set, int64_t size) {
  std::vector<int64_t> indices;
  for (int64_t index : set.indices()) {
    for (int64_t i = 0; i < size; ++i) {
      if (i == index || i - size == index) indices.push_back(i);
    }
  }
  for (const v1::IndexRange& range : set.ranges()) {
    bool open = false;
    int64_t since = 0;
    for (int64_t i = 0; i < size; ++i) {
      const int64_t start = range.has_start() ? range.start() : 0;
      if (i == start || i - size == start) open = true;
      if (range.has_stop() && (i == range.stop() || i - size == range.stop())) {
        break;
      }
      if (!open) continue;
      const int64_t step = range.has_step() ? range.step() : 1;
      if (since++ % step == 0) indices.push_back(i);
    }
  }
  return indices;
}

v1::IndexSet RandomSet(std::mt19937& random, int64_t size) {
  auto between = [&](int64_t low, int64_t high) {
    return static_cast<int32_t>(low + random() % (high - low + 1));
  };
  v1::IndexSet set;
  for (int i = between(0, 3); i > 0; --i) {
    set.add_indices(between(-size, size - 1));
  }
  for (int i = between(0, 2); i > 0; --i) {
    v1::IndexRange& range = *set.add_ranges();
    if (between(0, 1)) range.set_start(between(-size, size - 1));
    if (between(0, 1)) range.set_stop(between(-size, size));
    if (between(0, 1)) range.set_step(between(1, 4));
  }
  return set;
}

TEST(ResolveIndices, IsWhatWalkingTheAxisGives) {
  std::mt19937 random(11);
  int valid = 0;
  int refused = 0;
  for (int repeat = 0; repeat < 20000; ++repeat) {
    const int64_t size = 1 + random() % 12;
    const v1::IndexSet set = RandomSet(random, size);
    std::vector<int64_t> naive = NaiveIndices(set, size);
    const auto resolved =
        ResolveIndices(set, {.size = size, .extent = "the axis"}, "field");
    if (resolved.ok()) {
      ++valid;
      EXPECT_EQ(*resolved, naive) << set.ShortDebugString() << " of " << size;
      EXPECT_FALSE(naive.empty());
    }
    std::sort(naive.begin(), naive.end());
    const bool repeats =
        std::adjacent_find(naive.begin(), naive.end()) != naive.end();
    if (!resolved.ok()) {
      ++refused;
      // Refused for one of the reasons that it is for.
      bool has_empty_range = naive.empty();
      for (const v1::IndexRange& range : set.ranges()) {
        v1::IndexSet alone;
        *alone.add_ranges() = range;
        has_empty_range |= NaiveIndices(alone, size).empty();
      }
      EXPECT_TRUE(repeats || has_empty_range)
          << resolved.status() << set.ShortDebugString() << " of " << size;
    } else {
      EXPECT_FALSE(repeats);
    }
  }
  // Both kinds were seen often.
  EXPECT_GT(valid, 4000);
  EXPECT_GT(refused, 4000);
}

TEST(ResolveIndices, KeepsTheOrderGiven) {
  v1::IndexSet set;
  set.add_indices(-1);
  set.add_indices(2);
  set.add_ranges()->set_stop(2);
  const auto resolved =
      ResolveIndices(set, {.size = 6, .extent = "the axis"}, "field");
  ASSERT_THAT(resolved, IsOk());
  EXPECT_THAT(*resolved, ElementsAre(5, 2, 0, 1));
}

ResolvedSelection SelectionOf(const std::string& hook_points,
                              const std::string& selection) {
  const auto plan = Plan(absl::StrCat(
      "runs { prompt { tokens { ids: [7,8,7,9,7] } } }", "captures { ",
      "hook_points: '", hook_points, "' selection { ", selection, " } }"));
  EXPECT_THAT(plan, IsOk());
  return plan.ok() ? (*plan)->captures.front().selection : ResolvedSelection();
}

TEST(CheckedSelection, FindsPositionsByToken) {
  EXPECT_THAT(SelectionOf("logits", "token_ids: 7").positions,
              Optional(ElementsAre(0, 2, 4)));
  EXPECT_THAT(SelectionOf("logits", "token_ids: [9, 8, 9]").positions,
              Optional(ElementsAre(1, 3)));
}

TEST(CheckedSelection, LeavesWhatIsKeptWholeUnset) {
  EXPECT_EQ(SelectionOf("logits", "positions { ranges {} }").positions,
            std::nullopt);
  EXPECT_EQ(SelectionOf("logits", "token_ids: [7, 8, 9]").positions,
            std::nullopt);
  EXPECT_THAT(
      SelectionOf("logits", "positions { indices: [1, 0, 2, 3, 4] }").positions,
      Optional(ElementsAre(1, 0, 2, 3, 4)));
}

TEST(CheckedSelection, ChoosesAlongTheDimensionOfItsName) {
  const ResolvedSelection queries =
      SelectionOf("layers.0.attention_queries",
                  "positions { indices: -1 } heads { indices: -1 } features { "
                  "indices: 7 }");
  EXPECT_THAT(queries.positions, Optional(ElementsAre(4)));
  EXPECT_THAT(queries.heads, Optional(ElementsAre(5)));
  EXPECT_THAT(queries.features, Optional(ElementsAre(7)));
  // Key/value heads where those are the heads.
  EXPECT_THAT(
      SelectionOf("layers.0.attention_values", "heads { indices: -1 }").heads,
      Optional(ElementsAre(1)));
  const ResolvedSelection pattern =
      SelectionOf("layers.0.attention_scores",
                  "heads { indices: 3 } queries { ranges { start: -2 } } "
                  "keys { indices: [4, 0] }");
  EXPECT_THAT(pattern.heads, Optional(ElementsAre(3)));
  EXPECT_THAT(pattern.queries, Optional(ElementsAre(3, 4)));
  EXPECT_THAT(pattern.keys, Optional(ElementsAre(4, 0)));
  EXPECT_THAT(
      SelectionOf("next_token_probs", "features { indices: 49 }").features,
      Optional(ElementsAre(49)));
  EXPECT_THAT(SelectionOf("rotary_cos", "features { indices: 3 }").features,
              Optional(ElementsAre(3)));
}

// Selects at random along every dimension that has a field for it; `shape` is
// what remains, by walking each dimension.
void SelectAtRandom(const HookEntry& entry, std::mt19937& random,
                    v1::Selection& selection, std::vector<int64_t>& shape) {
  for (Dimension dimension : entry.dimensions) {
    const std::string name(Name(dimension));
    v1::IndexSet* set = name == "seq"     ? selection.mutable_positions()
                        : name == "query" ? selection.mutable_queries()
                        : name == "key"   ? selection.mutable_keys()
                        : name == "num_heads" || name == "num_kv_heads"
                            ? selection.mutable_heads()
                            : selection.mutable_features();
    const int64_t size = SizeOf(dimension, TinySpec(), 5);
    do {
      *set = RandomSet(random, size);
    } while (!ResolveIndices(*set, {.size = size}, "").ok());
    shape.push_back(static_cast<int64_t>(NaiveIndices(*set, size).size()));
  }
}

TEST(PlanTrace, ShapesEveryValueByWhatIsSelectedOfIt) {
  std::mt19937 random(12);
  for (const HookEntry& entry : HookCatalogue()) {
    if (entry.hook == Hook::kInputSize) continue;  // it cannot be selected from
    for (int repeat = 0; repeat < 30; ++repeat) {
      v1::TraceRequest request = RequestOf(kFiveTokens);
      v1::Capture& capture = *request.add_captures();
      capture.set_hook_points(
          FullName({entry.hook, HasLayer(entry.hook) ? 3 : -1}));
      std::vector<int64_t> shape;
      SelectAtRandom(entry, random, *capture.mutable_selection(), shape);
      const auto plan = PlanTrace(request, TinyContext());
      ASSERT_THAT(plan, IsOk()) << capture.ShortDebugString();
      const PlannedTensor& tensor = (*plan)->tensors.front();
      EXPECT_EQ(tensor.shape, shape) << capture.ShortDebugString();
      int64_t elements = 1;
      for (int64_t size : shape) elements *= size;
      EXPECT_EQ(tensor.size_bytes, elements * SizeInBytes(tensor.dtype));
    }
  }
}

// Which fields each value can be selected by.
TEST(CheckedSelection, AllowsTheFieldsThatAValueHasDimensionsFor) {
  for (const HookEntry& entry : HookCatalogue()) {
    std::vector<std::string> allowed;
    for (const char* field :
         {"positions", "heads", "features", "queries", "keys"}) {
      v1::Selection selection;
      const auto* descriptor =
          selection.GetDescriptor()->FindFieldByName(field);
      selection.GetReflection()->MutableMessage(&selection, descriptor);
      if (CheckedSelection::Create(selection, entry, TinySpec(), "f").ok()) {
        allowed.push_back(field);
      }
    }
    std::vector<std::string> expected;
    const std::string last(Name(entry.dimensions.back()));
    for (Dimension dimension : entry.dimensions) {
      if (Name(dimension) == "seq") expected.push_back("positions");
    }
    for (Dimension dimension : entry.dimensions) {
      if (Name(dimension) == "num_heads" || Name(dimension) == "num_kv_heads") {
        expected.push_back("heads");
      }
    }
    if (last == "key") {
      expected.insert(expected.end(), {"queries", "keys"});
    } else if (last != "seq" && last != "pair") {
      expected.push_back("features");
    }
    EXPECT_EQ(allowed, expected) << entry.name;
  }
}

}  // namespace
}  // namespace phitap
