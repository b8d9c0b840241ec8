// How far an edit reaches: from the first layer and position that its hook
// point says, and no bit before.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "server/base/dtype.h"
#include "tests/unit/model/difference_rows.h"

namespace phitap {
namespace {

constexpr int64_t kTokens = 50;
constexpr int kLayer = 2;

struct Place {
  Hook hook;
  // The first layer that an edit in kLayer reaches, and the first position of
  // one at `position`.
  int first_layer;
};

// Every hook point that can be written.
constexpr Place kPlaces[] = {
    {Hook::kTokenEmbeddings, 0},
    {Hook::kLayerInput, kLayer},
    {Hook::kAttentionNormOutput, kLayer},
    {Hook::kAttentionQkv, kLayer},
    {Hook::kAttentionQueriesPreRotary, kLayer},
    {Hook::kAttentionKeysPreRotary, kLayer},
    {Hook::kAttentionQueries, kLayer},
    {Hook::kAttentionKeys, kLayer},
    {Hook::kAttentionValues, kLayer},
    {Hook::kAttentionScores, kLayer},
    {Hook::kAttentionProbabilities, kLayer},
    {Hook::kAttentionHeadOutputs, kLayer},
    {Hook::kAttentionPremix, kLayer},
    {Hook::kAttentionOutput, kLayer},
    {Hook::kLayerMid, kLayer},
    {Hook::kMlpNormOutput, kLayer},
    {Hook::kMlpInput, kLayer},
    {Hook::kMlpGateUp, kLayer},
    {Hook::kMlpGate, kLayer},
    {Hook::kMlpUp, kLayer},
    {Hook::kMlpActivation, kLayer},
    {Hook::kMlpNeurons, kLayer},
    {Hook::kMlpOutput, kLayer},
    {Hook::kLayerOutput, kLayer + 1},
    {Hook::kFinalNormOutput, kDeepLayers},
    {Hook::kLmHeadOutput, kDeepLayers},
    {Hook::kLogits, kDeepLayers},
};

class Rectangle : public testing::TestWithParam<std::tuple<Place, TinyKind>> {
 protected:
  // The layer that the value is of, as rows count them.
  static int LayerOf(const RecordingHooks::Key& key) {
    if (key.hook >= Hook::kFinalNormOutput) return kDeepLayers;
    return std::max(0, key.layer) + (key.hook == Hook::kLayerOutput ? 1 : 0);
  }

  // The position of the first line at which the records differ; −1 for none.
  static int64_t FirstDifference(const Recorded& a, const Recorded& b,
                                 Hook hook) {
    const int64_t lines = IsPattern(hook) ? 1 : 0;
    for (size_t i = 0; i < a.positions.size(); ++i) {
      const auto line = static_cast<int64_t>(i);
      if (!SameBits(a.value.select(lines, line), b.value.select(lines, line))) {
        return a.positions[i];
      }
    }
    return -1;
  }
};

TEST_P(Rectangle, BeginsWhereTheHookPointSays) {
  at::set_num_threads(2);
  const auto [place, kind] = GetParam();
  const auto model = DeepModel(kind, DType::kBF16);
  model->MeasureRowRule();
  const ForwardOptions options{.attention = ForwardAttention::kEager};
  FamilyRun run{.prompt = WholePrompt(*model, {})};
  for (int64_t i = 0; i < kTokens; ++i) {
    run.prompt.ids.push_back(static_cast<int32_t>(i * 7 % 96));
    run.prompt.position_ids.push_back(i);
  }
  const Records plain = Alone(*model, run, options);
  for (const int64_t position : {int64_t{0}, int64_t{31}, int64_t{37}}) {
    FamilyRun edited = run;
    edited.edits = {{.point = {place.hook, HasLayer(place.hook) ? kLayer : -1},
                     .position = position,
                     .key = std::max<int64_t>(0, position - 3),
                     .value = 0.5}};
    EXPECT_EQ(FirstLayerOf(edited.edits[0]), place.first_layer);
    int64_t first = kTokens;
    int changed_at_first_layer = 0;
    for (const auto& [key, record] : Alone(*model, edited, options)) {
      if (key.hook == Hook::kNextTokenProbs) continue;
      const int64_t at = FirstDifference(record, plain.at(key), key.hook);
      if (at < 0) continue;
      // What is shown of layer_output of the layer before is the row's, too.
      EXPECT_GE(LayerOf(key), place.first_layer) << NameOf(key);
      first = std::min(first, at);
      if (LayerOf(key) == place.first_layer) ++changed_at_first_layer;
    }
    EXPECT_EQ(first, position);
    EXPECT_GT(changed_at_first_layer, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Everywhere, Rectangle,
    testing::Combine(testing::ValuesIn(kPlaces),
                     testing::Values(TinyKind::kWindow, TinyKind::kSu)),
    [](const auto& info) {
      return std::string(EntryOf(std::get<Place>(info.param).hook).name) + "_" +
             Name(std::get<TinyKind>(info.param));
    });

TEST(RectangleTable, HasEveryHookPointThatCanBeWritten) {
  for (const HookEntry& entry : HookCatalogue()) {
    const bool listed =
        std::any_of(std::begin(kPlaces), std::end(kPlaces),
                    [&](const Place& p) { return p.hook == entry.hook; });
    EXPECT_EQ(listed, entry.access == Access::kReadWrite)
        << std::string(entry.name);
  }
}

}  // namespace
}  // namespace phitap
