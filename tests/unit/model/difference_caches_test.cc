// Rows with a parent leave caches that the run's next tokens go on from.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <tuple>
#include <vector>

#include "server/base/dtype.h"
#include "server/model/key_value_cache.h"
#include "tests/unit/model/family_draw.h"
#include "tests/unit/model/kind_settings.h"

namespace phitap {
namespace {

constexpr int64_t kMoreTokens = 3;

struct Setting {
  DType dtype;
  ForwardAttention attention;
};

class DifferenceCaches
    : public testing::TestWithParam<std::tuple<TinyKind, Setting>> {
 protected:
  DifferenceCaches()
      : kind_(std::get<TinyKind>(GetParam())),
        model_(DeepModel(kind_, std::get<Setting>(GetParam()).dtype)),
        options_{.attention = std::get<Setting>(GetParam()).attention},
        draw_(*model_, options_, static_cast<unsigned>(kind_)) {
    at::set_num_threads(2);
    model_->MeasureRowRule();
  }

  // A cache for most, and a parent here and there that has one itself.
  std::deque<KeyValueCache> Caches(size_t count) {
    std::deque<KeyValueCache> caches;
    while (caches.size() < count) caches.emplace_back(model_->spec());
    return caches;
  }

  // Computes the rows, then each cached run's next tokens, two steps.
  void ExpectNextTokens(const std::vector<FamilyRun>& runs) {
    std::deque<KeyValueCache> caches = Caches(runs.size());
    std::vector<ForwardRow> rows;
    std::vector<bool> cached;
    for (size_t i = 0; i < runs.size(); ++i) {
      rows.push_back(runs[i].DifferenceRow());
      cached.push_back(draw_.Draw(0, 3) > 0);
      if (cached.back()) rows.back().cache = &caches[i];
    }
    RowEditingHooks hooks(runs);
    model_->Forward(rows, options_, hooks);
    for (size_t i = 0; i < runs.size(); ++i) {
      ExpectRow(hooks.records(), static_cast<int>(i), runs[i],
                Alone(*model_, runs[i], options_));
      if (cached[i]) ExpectSteps(runs[i], caches[i]);
    }
  }

  void ExpectSteps(const FamilyRun& run, KeyValueCache& cache) {
    ASSERT_EQ(cache.length(), run.prompt.token_count());
    EXPECT_EQ(cache.size_bytes(), BytesAlone(run));
    FamilyRun longer = Longer(run);
    const Records alone = Alone(*model_, longer, options_);
    for (const int64_t count : {int64_t{1}, kMoreTokens - 1}) {
      FamilyRun step = longer;
      step.first_position = cache.length();
      const int64_t end = step.first_position + count;
      step.prompt = PrefixOf(*model_, longer.prompt, end);
      ForwardRow row = step.DifferenceRow();
      row.cache = &cache;
      RowEditingHooks hooks({step});
      model_->Forward({&row, 1}, options_, hooks);
      Records whole = Alone(*model_, step, options_);
      EXPECT_GT(ExpectRow(hooks.records(), 0, step, whole), 50);
      EXPECT_EQ(cache.length(), end);
    }
  }

  // Of the cache that the whole run leaves.
  int64_t BytesAlone(const FamilyRun& run) {
    KeyValueCache cache(model_->spec());
    ForwardRow row = run.WholeRow();
    row.cache = &cache;
    NoHooks hooks;
    model_->Forward({&row, 1}, options_, hooks);
    return cache.size_bytes();
  }

  // The run with some more tokens.
  FamilyRun Longer(const FamilyRun& run) {
    FamilyRun longer{.prompt = run.prompt,
                     .long_factors = run.long_factors,
                     .edits = run.edits};
    for (int64_t i = 0; i < kMoreTokens; ++i) {
      longer.prompt.ids.push_back(static_cast<int32_t>(draw_.Draw(0, 95)));
      longer.prompt.position_ids.push_back(longer.prompt.position_ids.back() +
                                           1);
    }
    return longer;
  }

  const TinyKind kind_;
  const std::unique_ptr<Phi3> model_;
  const ForwardOptions options_;
  FamilyDraw draw_;
};

TEST_P(DifferenceCaches, ServeTheNextTokens) {
  for (int i = 0; i < 2; ++i) ExpectNextTokens(draw_.Forest(6, 110));
}

TEST_P(DifferenceCaches, ServeThemBelowKeptStates) {
  const FamilyRun kept = draw_.Root(100);
  RowStates states(model_->spec());
  ForwardRow row = kept.DifferenceRow();
  row.states = &states;
  RowEditingHooks hooks({kept});
  model_->Forward({&row, 1}, options_, hooks);
  for (int i = 0; i < 2; ++i) ExpectNextTokens(draw_.Below(kept, states, 4));
}

INSTANTIATE_TEST_SUITE_P(Kinds, DifferenceCaches,
                         testing::ValuesIn(KindsWith<Setting>(
                             {{DType::kF32, ForwardAttention::kSdpa},
                              {DType::kF32, ForwardAttention::kEager},
                              {DType::kBF16, ForwardAttention::kSdpa},
                              {DType::kBF16, ForwardAttention::kEager}})),
                         [](const auto& info) {
                           const Setting& setting =
                               std::get<Setting>(info.param);
                           return Name(std::get<TinyKind>(info.param)) + "_" +
                                  std::string(Name(setting.dtype)) +
                                  (setting.attention == ForwardAttention::kSdpa
                                       ? "_sdpa"
                                       : "_eager");
                         });

}  // namespace
}  // namespace phitap
