#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "server/model/phi3.h"
#include "tests/unit/model/forward_fixture.h"

namespace phitap {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const std::vector<int32_t> kIds = {5, 17, 3, 90, 41, 8, 8, 60, 2, 33, 71, 12};

const at::Tensor& ValueAt(const Records& records, Hook hook, int layer = -1,
                          int row = 0) {
  return records.at({row, hook, layer}).value;
}

class Kinds : public testing::TestWithParam<TinyKind> {};
INSTANTIATE_TEST_SUITE_P(Family, Kinds, testing::ValuesIn(kTinyKinds),
                         [](const auto& info) { return Name(info.param); });

TEST_P(Kinds, ShowEveryHookPointOnceALayerWithItsShape) {
  const auto model = TinyModel(GetParam(), DType::kBF16);
  for (const auto numerics :
       {ForwardNumerics::kCausal, ForwardNumerics::kTransformers}) {
    const Records records =
        ForwardAll(*model, {WholePrompt(*model, kIds)}, {.numerics = numerics});
    size_t expected = 0;
    for (const HookEntry& entry : HookCatalogue()) {
      const int layers =
          HasLayer(entry.hook) ? static_cast<int>(model->spec().num_layers) : 1;
      expected += layers;
      for (int i = 0; i < layers; ++i) {
        const RecordingHooks::Key key{.hook = entry.hook,
                                      .layer = HasLayer(entry.hook) ? i : -1};
        ASSERT_TRUE(records.contains(key)) << NameOf(key);
        int64_t count = 1;
        for (const Dimension dimension : entry.dimensions) {
          count *= SizeOf(dimension, model->spec(),
                          static_cast<int64_t>(kIds.size()));
        }
        EXPECT_EQ(records.at(key).value.numel(), count) << NameOf(key);
      }
    }
    EXPECT_EQ(records.size(), expected);
  }
}

TEST_P(Kinds, HoldTheIdentitiesOfTheBlock) {
  const auto model = TinyModel(GetParam(), DType::kF32);
  const Records records = ForwardAll(*model, {WholePrompt(*model, kIds)});
  const ModelSpec& spec = model->spec();
  for (int layer = 0; layer < spec.num_layers; ++layer) {
    const auto at = [&](Hook hook) { return ValueAt(records, hook, layer); };
    EXPECT_TRUE(at::equal((at(Hook::kLayerInput) + at(Hook::kAttentionOutput)) +
                              at(Hook::kMlpOutput),
                          at(Hook::kLayerOutput)));
    const std::vector<at::Tensor> qkv =
        at(Hook::kAttentionQkv)
            .split_with_sizes({spec.num_heads * spec.head_dim,
                               spec.num_kv_heads * spec.head_dim,
                               spec.num_kv_heads * spec.head_dim},
                              1);
    EXPECT_TRUE(
        at::equal(qkv[0], at(Hook::kAttentionQueriesPreRotary).flatten(1)));
    EXPECT_TRUE(
        at::equal(qkv[1], at(Hook::kAttentionKeysPreRotary).flatten(1)));
    EXPECT_TRUE(at::equal(qkv[2], at(Hook::kAttentionValues).flatten(1)));
    EXPECT_TRUE(at::equal(at(Hook::kMlpUp) * at(Hook::kMlpActivation),
                          at(Hook::kMlpNeurons)));
    EXPECT_TRUE(at::equal(at::cat({at(Hook::kMlpGate), at(Hook::kMlpUp)}, 1),
                          at(Hook::kMlpGateUp)));
    if (layer > 0) {
      EXPECT_TRUE(at::equal(ValueAt(records, Hook::kLayerOutput, layer - 1),
                            at(Hook::kLayerInput)));
    }
  }
}

TEST(Forward, MakesTheSameNeuronsWhetherTheActivationIsSeenOrNot) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    const auto model = TinyModel(TinyKind::kWindow, dtype);
    const Prompt prompt = WholePrompt(*model, kIds);
    const ForwardRow row = prompt.Row();
    RecordingHooks neurons({prompt.token_count()},
                           [](Hook hook) { return hook == Hook::kMlpNeurons; });
    model->Forward({&row, 1}, {}, neurons);
    const Records all = ForwardAll(*model, {prompt});
    for (const auto& [key, record] : neurons.records()) {
      EXPECT_TRUE(SameBits(record.value, all.at(key).value)) << NameOf(key);
    }
  }
}

TEST(Forward, SeesNoFurtherThanTheWindowAndNothingHidden) {
  for (const int64_t window : {1, 8, 32, 33, 40}) {
    const auto model = ModelWithWindow(window, DType::kF32);
    Prompt prompt = WholePrompt(*model, std::vector<int32_t>(150, 4));
    prompt.hidden = {2, 35, 36, 100, 149};
    const Records records = ForwardAll(*model, {prompt});
    const at::Tensor probabilities =
        ValueAt(records, Hook::kAttentionProbabilities, 1);
    const at::Tensor scores = ValueAt(records, Hook::kAttentionScores, 1);
    at::Tensor visible = at::ones({150, 150}, at::kBool).tril();
    visible = visible.triu(1 - window);
    for (const int64_t position : prompt.hidden) {
      visible.select(1, position).fill_(false);
    }
    EXPECT_TRUE(at::equal(probabilities[0].gt(0), visible)) << window;
    EXPECT_TRUE(at::equal(scores[0].gt(-kInfinity), visible)) << window;
  }
}

TEST(Forward, GivesZeroToAQueryThatSeesNoKey) {
  for (const auto attention :
       {ForwardAttention::kSdpa, ForwardAttention::kEager}) {
    const auto model = TinyModel(TinyKind::kGroupedQueries, DType::kBF16);
    Prompt prompt = WholePrompt(*model, kIds);
    prompt.hidden = {0, 1, 5};
    const Records records =
        ForwardAll(*model, {prompt}, {.attention = attention});
    const at::Tensor mixed = ValueAt(records, Hook::kAttentionHeadOutputs, 0);
    EXPECT_TRUE(mixed.narrow(0, 0, 2).eq(0).all().item<bool>());
    EXPECT_TRUE(mixed.narrow(0, 2, 1).ne(0).any().item<bool>());
    const at::Tensor probabilities =
        ValueAt(records, Hook::kAttentionProbabilities, 0);
    EXPECT_TRUE(probabilities.select(1, 1).eq(0).all().item<bool>());
    EXPECT_TRUE(probabilities.select(2, 5).eq(0).all().item<bool>());
  }
}

TEST(Forward, KeepsReadingPatternsApartFromTheForward) {
  const auto model = TinyModel(TinyKind::kGroupedQueries, DType::kBF16);
  const Prompt prompt = WholePrompt(*model, kIds);
  const ForwardRow row = prompt.Row();
  RecordingHooks logits({prompt.token_count()},
                        [](Hook hook) { return hook == Hook::kLogits; });
  model->Forward({&row, 1}, {}, logits);
  EXPECT_TRUE(SameBits(ValueAt(logits.records(), Hook::kLogits),
                       ValueAt(ForwardAll(*model, {prompt}), Hook::kLogits)));
}

// Puts `value` in one place and lets everything else pass.
class WritingHooks : public RecordingHooks {
 public:
  struct Place {
    HookPoint point;
    int64_t position = 0;
    double value = 0.0;
  };
  WritingHooks(int64_t token_count, const Place& place)
      : RecordingHooks({token_count}, [](Hook) { return true; }),
        place_(place) {}

  at::Tensor Visit(HookPoint point, at::Tensor value,
                   const TokenLayout& layout) override {
    if (point == place_.point) {
      value = value.clone();
      value.select(0, place_.position).fill_(place_.value);
    }
    return RecordingHooks::Visit(point, value, layout);
  }

 private:
  const Place place_;
};

Records ForwardWriting(const Phi3& model, const Prompt& prompt,
                       const WritingHooks::Place& place,
                       const ForwardOptions& options) {
  WritingHooks hooks(prompt.token_count(), place);
  const ForwardRow row = prompt.Row();
  model.Forward({&row, 1}, options, hooks);
  return hooks.records();
}

TEST(Forward, GoesOnWithWhatTheHooksReturn) {
  const auto model = TinyModel(TinyKind::kGroupedQueries, DType::kF32);
  const Prompt prompt = WholePrompt(*model, kIds);
  for (const auto numerics :
       {ForwardNumerics::kCausal, ForwardNumerics::kTransformers}) {
    const ForwardOptions options{.numerics = numerics};
    const at::Tensor clean =
        ValueAt(ForwardAll(*model, {prompt}, options), Hook::kLogits);
    for (const HookEntry& entry : HookCatalogue()) {
      if (entry.access == Access::kRead || IsPattern(entry.hook)) continue;
      const HookPoint point{entry.hook, HasLayer(entry.hook) ? 0 : -1};
      const at::Tensor logits =
          ValueAt(ForwardWriting(*model, prompt,
                                 {.point = point, .position = 7, .value = 0.25},
                                 options),
                  Hook::kLogits);
      EXPECT_TRUE(at::equal(logits.narrow(0, 0, 7), clean.narrow(0, 0, 7)))
          << entry.name;
      EXPECT_FALSE(at::equal(logits[7], clean[7])) << entry.name;
    }
  }
}

TEST(Forward, KeepsANanOrAnInfinityFromQueriesThatCannotSeeIt) {
  std::vector<int32_t> ids;
  for (int i = 0; i < 70; ++i) ids.push_back(i % 90);
  for (const TinyKind kind : {TinyKind::kWindow, TinyKind::kGroupedQueries}) {
    const auto model = TinyModel(kind, DType::kBF16);
    const Prompt prompt = WholePrompt(*model, ids);
    const int64_t window =
        model->spec().sliding_window.value_or(prompt.token_count());
    for (const auto attention :
         {ForwardAttention::kSdpa, ForwardAttention::kEager}) {
      const ForwardOptions options{.attention = attention};
      const at::Tensor clean = ValueAt(ForwardAll(*model, {prompt}, options),
                                       Hook::kAttentionHeadOutputs, 0);
      for (const Hook hook : {Hook::kAttentionKeys, Hook::kAttentionValues}) {
        for (const double value : {std::nan(""), kInfinity}) {
          const at::Tensor mixed =
              ValueAt(ForwardWriting(
                          *model, prompt,
                          {.point = {hook, 0}, .position = 40, .value = value},
                          options),
                      Hook::kAttentionHeadOutputs, 0);
          const int64_t end = std::min(prompt.token_count(), 40 + window);
          for (int64_t query = 0; query < prompt.token_count(); ++query) {
            const bool sees = 40 <= query && query < end;
            EXPECT_EQ(SameBits(mixed[query], clean[query]), !sees) << query;
          }
        }
      }
    }
  }
}

TEST(Forward, DropsTheRowsThatNobodyWaitsFor) {
  class DroppingHooks final : public RecordingHooks {
   public:
    using RecordingHooks::RecordingHooks;
    std::vector<int> AfterLayer(int layer, const TokenLayout& layout) override {
      rows_of_layer.emplace_back();
      for (const auto& row : layout.rows) {
        rows_of_layer.back().push_back(row.row);
      }
      return layer == 0 ? std::vector<int>{1} : std::vector<int>{};
    }
    std::vector<std::vector<int>> rows_of_layer;
  };
  const auto model = TinyModel(TinyKind::kLongRope, DType::kF32);
  std::vector<Prompt> prompts;
  for (int i = 0; i < 3; ++i) {
    prompts.push_back(WholePrompt(
        *model, {kIds.begin(), kIds.begin() + static_cast<int>(3 + 4 * i)}));
  }
  const std::vector<ForwardRow> rows = {prompts[0].Row(), prompts[1].Row(),
                                        prompts[2].Row()};
  DroppingHooks hooks({3, 7, 11}, [](Hook) { return true; });
  model->Forward(rows, {}, hooks);
  ASSERT_GE(hooks.rows_of_layer.size(), 2u);
  EXPECT_THAT(hooks.rows_of_layer[0], ElementsAre(0, 1, 2));
  EXPECT_THAT(hooks.rows_of_layer[1], ElementsAre(0, 2));
  for (const int row : {0, 2}) {
    EXPECT_TRUE(
        SameBits(ValueAt(hooks.records(), Hook::kLogits, -1, row),
                 ValueAt(ForwardAll(*model, {prompts[row]}), Hook::kLogits)));
  }
  EXPECT_FALSE(hooks.records().contains({1, Hook::kLogits, -1}));
}

TEST(Forward, ShowsNothingThatIsNotWanted) {
  class AskedHooks final : public Hooks {
   public:
    bool Wants(HookPoint) const override { return false; }
    at::Tensor Visit(HookPoint point, at::Tensor value,
                     const TokenLayout&) override {
      visited.push_back(point);
      return value;
    }
    bool WantsPattern(HookPoint, const PatternBlock&) const override {
      return false;
    }
    at::Tensor VisitPattern(HookPoint point, const PatternBlock&,
                            at::Tensor value) override {
      visited.push_back(point);
      return value;
    }
    std::vector<int> AfterLayer(int, const TokenLayout&) override { return {}; }
    std::vector<HookPoint> visited;
  };
  const auto model = TinyModel(TinyKind::kPartialTied, DType::kF32);
  const Prompt prompt = WholePrompt(*model, kIds);
  const ForwardRow row = prompt.Row();
  for (const auto attention :
       {ForwardAttention::kSdpa, ForwardAttention::kEager}) {
    AskedHooks hooks;
    model->Forward({&row, 1}, {.attention = attention}, hooks);
    EXPECT_THAT(hooks.visited, IsEmpty());
  }
}

TEST_P(Kinds, GiveTheLensTheLogitsOfTheLastLayerWhateverTheNumberOfLines) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    const auto model = TinyModel(GetParam(), dtype);
    const Records records = ForwardAll(*model, {WholePrompt(*model, kIds)});
    const at::Tensor residual =
        ValueAt(records, Hook::kLayerOutput,
                static_cast<int>(model->spec().num_layers) - 1);
    const at::Tensor all = model->LensLogits(residual, Phi3::LensNorm::kApply);
    EXPECT_TRUE(at::equal(all, ValueAt(records, Hook::kLogits).to(at::kFloat)));
    EXPECT_TRUE(SameBits(
        model->LensLogits(residual.narrow(0, 5, 1), Phi3::LensNorm::kApply)[0],
        all[5]));
    EXPECT_FALSE(
        at::equal(model->LensLogits(residual, Phi3::LensNorm::kSkip), all));
  }
}

TEST(Forward, FindsARowRuleThatHolds) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const auto model = TinyModel(TinyKind::kPhi4, dtype);
    EXPECT_TRUE(model->MeasureRowRule().batch_invariant);
  }
}

TEST(Forward, ComputesInAnotherElementTypeThanTheStoredOne) {
  const TempFolder folder;
  TinyCheckpoint(TinyKind::kWindow, {.dtype = DType::kF32}).Write(folder);
  const auto stored = TinyModel(TinyKind::kWindow, DType::kBF16);
  const auto converted =
      Phi3::Load(Checkpoint::Open(folder.path()).value(), DType::kBF16).value();
  EXPECT_EQ(converted->dtype(), DType::kBF16);
  EXPECT_TRUE(SameBits(
      ValueAt(ForwardAll(*stored, {WholePrompt(*stored, kIds)}), Hook::kLogits),
      ValueAt(ForwardAll(*converted, {WholePrompt(*converted, kIds)}),
              Hook::kLogits)));
}

}  // namespace
}  // namespace phitap
