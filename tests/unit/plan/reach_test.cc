#include "server/plan/order/reach.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>
#include <set>

#include "tests/support/status_matchers.h"
#include "tests/unit/plan/planning.h"

namespace phitap {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int kLayers = 4;
constexpr int64_t kTokens = 6;
using Cells = std::set<std::pair<int, int64_t>>;  // layer, position

// Which parts of the forward must run, found by following every value back to
// what it is made from.
struct Needs {
  Cells keys_values;
  Cells tails;
  std::set<int64_t> norms;
  std::set<int64_t> heads;

  // The residual stream entering `layer`: the embedding, or what leaves the
  // layer before.
  void Stream(int layer, int64_t position) {
    if (layer > 0) Tail(layer - 1, position);
  }
  void KeysValues(int layer, int64_t position) {
    keys_values.insert({layer, position});
    Stream(layer, position);
  }
  void Tail(int layer, int64_t position) {
    if (!tails.insert({layer, position}).second) return;
    for (int64_t key = 0; key <= position; ++key) KeysValues(layer, key);
  }
  void Norm(int64_t position) {
    norms.insert(position);
    Tail(kLayers - 1, position);
  }
  void Head(int64_t position) {
    heads.insert(position);
    Norm(position);
  }
  void Add(HookPoint point, const std::vector<int64_t>& positions) {
    if (point.hook == Hook::kNextTokenProbs) return Head(kTokens - 1);
    for (int64_t position : positions) AddAt(point, position);
  }
  // In the words of the table of hook points.
  void AddAt(HookPoint point, int64_t position) {
    const std::set<std::string> inputs = {"input_ids",  "attention_mask",
                                          "input_size", "token_embeddings",
                                          "rotary_cos", "rotary_sin"};
    const std::set<std::string> before = {
        "attention_norm_output",     "attention_qkv",
        "attention_queries",         "attention_queries_pre_rotary",
        "attention_keys_pre_rotary", "attention_keys",
        "attention_values",          "attention_scores",
        "attention_probabilities"};
    const std::string name(EntryOf(point.hook).name);
    if (inputs.contains(name)) return;
    if (name == "layer_input") return Stream(point.layer, position);
    if (before.contains(name)) return KeysValues(point.layer, position);
    if (point.layer >= 0) return Tail(point.layer, position);
    return name == "final_norm_output" ? Norm(position) : Head(position);
  }

  int LayerCount() const {
    return keys_values.empty() ? 0 : keys_values.rbegin()->first + 1;
  }
  std::vector<int64_t> TailPositions() const {
    std::vector<int64_t> positions;
    for (const auto& [layer, position] : tails) {
      if (layer + 1 == LayerCount()) positions.push_back(position);
    }
    return positions;
  }
};

std::vector<int64_t> Sorted(const std::set<int64_t>& positions) {
  return {positions.begin(), positions.end()};
}

std::vector<int64_t> AllPositions() {
  std::vector<int64_t> all(kTokens);
  for (int64_t i = 0; i < kTokens; ++i) all[i] = i;
  return all;
}

TracePlan PlanOf(std::vector<PlannedCapture> captures, Numerics numerics) {
  TracePlan plan = {.numerics = numerics,
                    .runs = {{.ids = std::vector<int32_t>(kTokens)}},
                    .captures = std::move(captures)};
  PlanReach(TinyGrouped(), plan);
  return plan;
}

// Random captures, and what they need.
class RandomCaptures {
 public:
  explicit RandomCaptures(std::mt19937& random) : random_(random) {}

  void Add(Hook hook) {
    const HookPoint point = {hook, HasLayer(hook) ? Below(kLayers) : -1};
    PlannedCapture capture = {.point = point, .read_at = ReadPoint(point)};
    std::vector<int64_t> positions = AllPositions();
    const auto& dimensions = EntryOf(hook).dimensions;
    if (std::count(dimensions.begin(), dimensions.end(), Dimension::kSeq) &&
        Below(3) > 0) {
      std::shuffle(positions.begin(), positions.end(), random_);
      positions.resize(1 + Below(kTokens));
      capture.selection.positions = positions;
    }
    needs_.Add(point, positions);
    captures_.push_back(std::move(capture));
  }
  void AddAny() { Add(static_cast<Hook>(Below(kHookCount))); }

  void ExpectTheirReach() const {
    const Reach reach = PlanOf(captures_, Numerics::kCausal).runs.front().reach;
    EXPECT_EQ(reach.layer_count, needs_.LayerCount());
    EXPECT_EQ(reach.tail_positions, needs_.TailPositions());
    EXPECT_EQ(reach.norm_positions, Sorted(needs_.norms));
    EXPECT_EQ(reach.head_positions, Sorted(needs_.heads));
  }

 private:
  int Below(int64_t count) { return static_cast<int>(random_() % count); }

  std::mt19937& random_;
  std::vector<PlannedCapture> captures_;
  Needs needs_;
};

TEST(PlanReach, IsWhatEachHookPointNeeds) {
  std::mt19937 random(7);
  for (int i = 0; i < kHookCount; ++i) {
    for (int repeat = 0; repeat < 40; ++repeat) {
      RandomCaptures captures(random);
      captures.Add(static_cast<Hook>(i));
      captures.ExpectTheirReach();
      ASSERT_FALSE(testing::Test::HasFailure())
          << HookCatalogue()[i].name << ", case " << repeat;
    }
  }
}

TEST(PlanReach, IsWhatSeveralCapturesNeedTogether) {
  std::mt19937 random(8);
  for (int repeat = 0; repeat < 3000; ++repeat) {
    RandomCaptures captures(random);
    for (unsigned count = 1 + random() % 5; count > 0; --count) {
      captures.AddAny();
    }
    captures.ExpectTheirReach();
    ASSERT_FALSE(testing::Test::HasFailure()) << "case " << repeat;
  }
}

TEST(PlanReach, CallsTailNormAndHeadWithAllPositionsInTransformersNumerics) {
  for (int i = 0; i < kHookCount; ++i) {
    const Hook hook = static_cast<Hook>(i);
    const HookPoint point = {hook, HasLayer(hook) ? 2 : -1};
    PlannedCapture capture = {.point = point, .read_at = ReadPoint(point)};
    capture.selection.positions = {3};
    const Reach causal =
        PlanOf({capture}, Numerics::kCausal).runs.front().reach;
    const Reach exact =
        PlanOf({capture}, Numerics::kTransformers).runs.front().reach;
    EXPECT_EQ(exact.layer_count, causal.layer_count);
    for (auto positions : {&Reach::tail_positions, &Reach::norm_positions,
                           &Reach::head_positions}) {
      EXPECT_EQ(exact.*positions, (causal.*positions).empty()
                                      ? std::vector<int64_t>()
                                      : AllPositions())
          << EntryOf(hook).name;
    }
  }
}

TEST(PlanReach, ReadsALayersInputWhereTheLayerBeforeEnds) {
  EXPECT_EQ(ReadPoint({Hook::kLayerInput, 0}),
            HookPoint{Hook::kTokenEmbeddings});
  EXPECT_EQ(ReadPoint({Hook::kLayerInput, 3}),
            (HookPoint{Hook::kLayerOutput, 2}));
  EXPECT_EQ(ReadPoint({Hook::kLayerOutput, 3}),
            (HookPoint{Hook::kLayerOutput, 3}));
  EXPECT_EQ(ReadPoint({Hook::kLogits}), HookPoint{Hook::kLogits});
}

TEST(PlanReach, KeepsRunsApart) {
  const auto plan = Plan(
      "runs { label: 'a' prompt { text: 'abc' } }"
      "runs { label: 'b' prompt { text: 'abcd' } }"
      "captures { hook_points: 'layers.0.attention_keys' runs: 'a' }"
      "captures { hook_points: 'layers.2.layer_output' runs: 'b' "
      "selection { positions { indices: -1 } } }");
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ((*plan)->runs[0].reach.layer_count, 1);
  EXPECT_THAT((*plan)->runs[0].reach.tail_positions, IsEmpty());
  EXPECT_EQ((*plan)->runs[1].reach.layer_count, 3);
  EXPECT_THAT((*plan)->runs[1].reach.tail_positions, ElementsAre(3));
  // Run a enters one layer and finishes none; run b finishes two for all of
  // its tokens and the third for one.
  EXPECT_EQ((*plan)->token_layers, 0 + 2 * 4 + 1);
  EXPECT_EQ((*plan)->token_layers_full_depth, 4 * 3 + 4 * 4);
}

}  // namespace
}  // namespace phitap
