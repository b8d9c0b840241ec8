// Rows that compute only what differs from another row have the bits of the
// whole run computed alone.
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "server/base/dtype.h"
#include "tests/unit/model/family_draw.h"
#include "tests/unit/model/kind_settings.h"

namespace phitap {
namespace {

class DifferenceRows
    : public testing::TestWithParam<std::tuple<TinyKind, ComputeSetting>> {
 protected:
  DifferenceRows()
      : setting_(std::get<ComputeSetting>(GetParam())),
        model_(DeepModel(std::get<TinyKind>(GetParam()), setting_.dtype)),
        seed_(static_cast<unsigned>(
            1000 * static_cast<int>(std::get<TinyKind>(GetParam())) +
            100 * static_cast<int>(setting_.dtype) + setting_.thread_count)) {
    at::set_num_threads(setting_.thread_count);
    model_->MeasureRowRule();
  }

  int Compare(const std::vector<FamilyRun>& runs,
              const ForwardOptions& options) {
    std::vector<ForwardRow> rows;
    for (const FamilyRun& run : runs) rows.push_back(run.DifferenceRow());
    RowEditingHooks hooks(runs);
    model_->Forward(rows, options, hooks);
    int compared = 0;
    for (size_t i = 0; i < runs.size(); ++i) {
      compared += ExpectRow(hooks.records(), static_cast<int>(i), runs[i],
                            Alone(*model_, runs[i], options));
    }
    return compared;
  }

  const ComputeSetting setting_;
  const std::unique_ptr<Phi3> model_;
  const unsigned seed_;
};

constexpr ForwardAttention kAttentions[] = {ForwardAttention::kSdpa,
                                            ForwardAttention::kEager};

TEST_P(DifferenceRows, HaveTheBitsOfTheWholeRunAlone) {
  for (const ForwardAttention attention : kAttentions) {
    const ForwardOptions options{.attention = attention};
    FamilyDraw draw(*model_, options, seed_);
    int compared = 0;
    for (int i = 0; i < 3; ++i) {
      std::vector<FamilyRun> runs = draw.Forest(9, 80);
      draw.Prune(runs);
      compared += Compare(runs, options);
    }
    EXPECT_GT(compared, 500);
  }
}

TEST_P(DifferenceRows, GoOnFromWhatAnEarlierForwardLeft) {
  for (const ForwardAttention attention : kAttentions) {
    const ForwardOptions options{.attention = attention};
    FamilyDraw draw(*model_, options, seed_);
    // With a neighbour, and a child that takes its lines over the kept ones.
    std::vector<FamilyRun> first = {draw.Root(70), draw.Root(9)};
    first.push_back(draw.Child(first[0], 0));
    RowStates states(model_->spec());
    std::vector<ForwardRow> rows;
    for (const FamilyRun& run : first) rows.push_back(run.DifferenceRow());
    rows[0].states = &states;
    RowEditingHooks hooks(first);
    model_->Forward(rows, options, hooks);
    for (int i = 0; i < 3; ++i) {
      EXPECT_GT(ExpectRow(hooks.records(), i, first[i],
                          Alone(*model_, first[i], options)),
                3);
    }
    for (int wave = 0; wave < 3; ++wave) {
      std::vector<FamilyRun> runs = draw.Below(first[0], states, 6);
      draw.Prune(runs);
      EXPECT_GT(Compare(runs, options), 50);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, DifferenceRows,
                         testing::ValuesIn(KindsWith(ComputeSettings(
                             {DType::kF32, DType::kBF16}, {1, 2, 12, 48}))),
                         [](const auto& info) {
                           return Name(std::get<TinyKind>(info.param)) + "_" +
                                  NameOf(std::get<ComputeSetting>(info.param));
                         });

}  // namespace
}  // namespace phitap
