// Forwards that are left between layers, and rows that leave them.
#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "server/base/dtype.h"
#include "tests/support/live_bytes.h"
#include "tests/unit/model/family_draw.h"

namespace phitap {
namespace {

class SteppedForwards
    : public testing::TestWithParam<std::tuple<TinyKind, DType>> {
 protected:
  SteppedForwards()
      : model_(DeepModel(std::get<TinyKind>(GetParam()),
                         std::get<DType>(GetParam()))),
        draw_(*model_, {}, 7) {
    at::set_num_threads(2);
    model_->MeasureRowRule();
  }

  static std::vector<ForwardRow> RowsOf(const std::vector<FamilyRun>& runs) {
    std::vector<ForwardRow> rows;
    for (const FamilyRun& run : runs) rows.push_back(run.DifferenceRow());
    return rows;
  }

  // Steps until there is no more; returns how many.
  static int Finish(SteppedForward& forward) {
    int steps = 1;
    while (forward.Step()) ++steps;
    return steps;
  }

  template <typename Work>
  static void ExpectRefused(const Work& work) {
    try {
      work();
      FAIL();
    } catch (const c10::Error& error) {
      EXPECT_THAT(error.what_without_backtrace(),
                  testing::HasSubstr("row 0 was dropped, row 1 needs it"));
    }
  }

  void ExpectRows(const RowEditingHooks& hooks,
                  const std::vector<FamilyRun>& runs,
                  const ForwardOptions& options = {}) {
    for (size_t i = 0; i < runs.size(); ++i) {
      ExpectRow(hooks.records(), static_cast<int>(i), runs[i],
                Alone(*model_, runs[i], options));
    }
  }

  // The states that `run` leaves.
  std::unique_ptr<RowStates> Kept(const FamilyRun& run) {
    auto states = std::make_unique<RowStates>(model_->spec());
    ForwardRow row = run.DifferenceRow();
    row.states = states.get();
    RowEditingHooks hooks({run});
    model_->Forward({&row, 1}, {}, hooks);
    return states;
  }

  // Copies of all that the states hold.
  static std::vector<at::Tensor> CopyOf(const RowStates& states) {
    std::vector<at::Tensor> copies;
    for (int layer = 0; layer < kDeepLayers; ++layer) {
      const KeyLines keys = states.keys(layer).Lines();
      for (const at::Tensor& held :
           {keys.keys, keys.values, states.residual(layer).lines}) {
        copies.push_back(held.clone(at::MemoryFormat::Contiguous));
      }
    }
    return copies;
  }

  static void ExpectUnchanged(const RowStates& states,
                              const std::vector<at::Tensor>& before) {
    const std::vector<at::Tensor> now = CopyOf(states);
    for (size_t i = 0; i < now.size(); ++i) {
      EXPECT_TRUE(SameBits(now[i], before[i])) << i;
    }
  }

  const std::unique_ptr<Phi3> model_;
  FamilyDraw draw_;
};

TEST_P(SteppedForwards, LetOthersRunBetweenTheirLayers) {
  const FamilyRun kept = draw_.Root(60);
  const auto states = Kept(kept);
  const std::vector<at::Tensor> before = CopyOf(*states);
  const std::vector<FamilyRun> large = draw_.Below(kept, *states, 7);
  const std::vector<FamilyRun> small = draw_.Below(kept, *states, 3);
  const auto large_rows = RowsOf(large), small_rows = RowsOf(small);
  RowEditingHooks of_large(large);
  const auto forward = model_->Begin(large_rows, {}, of_large);
  bool more = true;
  while (more) {
    more = forward->Step();
    RowEditingHooks of_small(small);
    model_->Forward(small_rows, {}, of_small);
    ExpectRows(of_small, small);
    ExpectUnchanged(*states, before);
  }
  ExpectRows(of_large, large);
}

TEST_P(SteppedForwards, TakeOneStepALayer) {
  const std::vector<FamilyRun> runs = {draw_.Root(40), draw_.Root(3)};
  const auto rows = RowsOf(runs);
  RowEditingHooks hooks(runs);
  const auto forward = model_->Begin(rows, {}, hooks);
  for (int layer = 0; layer < kDeepLayers; ++layer) {
    EXPECT_EQ(forward->Step(), layer + 1 < kDeepLayers);
    EXPECT_EQ(hooks.last_layers[0], layer);
  }
  ExpectRows(hooks, runs);
}

TEST_P(SteppedForwards, PassOverLayersThatNoRowComputes) {
  const FamilyRun kept = draw_.Root(40);
  const auto states = Kept(kept);
  FamilyRun late = kept;
  late.edits.push_back(
      {.point = {Hook::kLayerInput, 3}, .position = 20, .value = 2});
  late.first_layer = 3;
  late.first_position = 20;
  late.parent_states = states.get();
  const std::vector<FamilyRun> runs = {late};
  const auto rows = RowsOf(runs);
  RowEditingHooks hooks(runs);
  EXPECT_EQ(Finish(*model_->Begin(rows, {}, hooks)), kDeepLayers - 3);
  ExpectRows(hooks, runs);
}

TEST_P(SteppedForwards, GoOnWithoutTheRowsThatAreDropped) {
  for (int i = 0; i < 4; ++i) {
    const std::vector<FamilyRun> runs = draw_.Forest(9, 60);
    const auto rows = RowsOf(runs);
    const std::vector<bool> leaves = Leaves(runs);
    RowEditingHooks hooks(runs);
    std::vector<int> dropped_after(runs.size(), -1);
    for (size_t row = 0; row < runs.size(); ++row) {
      if (!leaves[row] || draw_.Draw(0, 1) == 0) continue;
      // Perhaps before it begins.
      dropped_after[row] = static_cast<int>(draw_.Draw(0, kDeepLayers - 1));
      hooks.drops[dropped_after[row]].push_back(static_cast<int>(row));
    }
    Finish(*model_->Begin(rows, {}, hooks));
    for (size_t row = 0; row < runs.size(); ++row) {
      const int index = static_cast<int>(row);
      if (dropped_after[row] < 0) {
        ExpectRow(hooks.records(), index, runs[row],
                  Alone(*model_, runs[row], {}));
      } else if (hooks.last_layers.contains(index)) {
        EXPECT_LE(hooks.last_layers[index], dropped_after[row]);
      }
    }
  }
}

TEST_P(SteppedForwards, EndOnceEverythingIsDropped) {
  std::vector<FamilyRun> runs = {draw_.Root(40)};
  runs.push_back(runs[0]);
  runs[1].parent = 0;
  runs[1].first_layer = 3;
  runs[1].first_position = 10;
  const auto rows = RowsOf(runs);
  RowEditingHooks hooks(runs);
  hooks.drops[1] = {0, 1};
  EXPECT_EQ(Finish(*model_->Begin(rows, {}, hooks)), 2);
  EXPECT_EQ(hooks.last_layers[0], 1);
  EXPECT_FALSE(hooks.last_layers.contains(1));
  EXPECT_FALSE(hooks.records().contains({.hook = Hook::kLogits}));
}

TEST_P(SteppedForwards, RefuseToDropAParentThatIsNeeded) {
  std::vector<FamilyRun> runs = {draw_.Root(40)};
  runs.push_back(runs[0]);
  runs[1].parent = 0;
  runs[1].first_layer = 1;
  for (const int64_t first_position : {int64_t{0}, int64_t{10}}) {
    runs[1].first_position = first_position;
    const auto rows = RowsOf(runs);
    RowEditingHooks waiting(runs), begun(runs);
    runs[1].first_layer = 3;
    waiting.drops[1] = {0};
    const auto later = RowsOf(runs);
    ExpectRefused([&] { model_->Forward(later, {}, waiting); });
    runs[1].first_layer = 1;
    begun.drops[1] = {0};
    if (first_position == 0) {
      model_->Forward(rows, {}, begun);
      ExpectRow(begun.records(), 1, runs[1], Alone(*model_, runs[1], {}));
    } else {
      ExpectRefused([&] { model_->Forward(rows, {}, begun); });
    }
  }
}

TEST_P(SteppedForwards, FreeWhatDroppedRowsHeldBetweenLayers) {
  class DroppingHooks final : public RecordingHooks {
   public:
    explicit DroppingHooks(std::vector<int> dropped)
        : RecordingHooks({}, [](Hook) { return false; }), dropped_(dropped) {}
    std::vector<int> AfterLayer(int, const TokenLayout&) override {
      return dropped_;
    }

   private:
    const std::vector<int> dropped_;
  };
  constexpr int64_t kMany = 2000;
  const std::vector<FamilyRun> runs = {draw_.Root(3), draw_.Root(kMany)};
  const auto rows = RowsOf(runs);
  const auto held_after_a_layer = [&](const std::vector<int>& dropped) {
    const LiveBytes bytes;
    DroppingHooks hooks(dropped);
    const auto forward = model_->Begin(rows, {}, hooks);
    EXPECT_TRUE(forward->Step());
    return bytes.now();
  };
  const ModelSpec& spec = model_->spec();
  // Keys, values and residual stream.
  const int64_t of_a_token =
      (2 * spec.num_kv_heads * spec.head_dim + spec.hidden_size) *
      SizeInBytes(model_->dtype());
  EXPECT_GE(held_after_a_layer({}) - held_after_a_layer({1}),
            kMany * of_a_token);
}

TEST_P(SteppedForwards, LeaveKeptStatesAsTheyWereWhenTheyFail) {
  class FailingHooks final : public RowEditingHooks {
   public:
    using RowEditingHooks::RowEditingHooks;
    at::Tensor VisitPattern(HookPoint, const PatternBlock&,
                            at::Tensor) override {
      TORCH_CHECK(false, "as asked");
    }
  };
  const FamilyRun kept = draw_.Root(60);
  const auto states = Kept(kept);
  const std::vector<at::Tensor> before = CopyOf(*states);
  const std::vector<FamilyRun> runs = draw_.Below(kept, *states, 5);
  const auto rows = RowsOf(runs);
  FailingHooks hooks(runs);
  const auto forward = model_->Begin(rows, {}, hooks);
  EXPECT_THROW(Finish(*forward), c10::Error);
  ExpectUnchanged(*states, before);
}

TEST_P(SteppedForwards, RefuseParentsThatDoNotReachAsFar) {
  const auto refused = [&](const std::vector<ForwardRow>& rows) {
    NoHooks hooks;
    EXPECT_THROW(model_->Begin(rows, {}, hooks), c10::Error);
  };
  std::vector<FamilyRun> runs = {draw_.Root(40)};
  runs.push_back(runs[0]);
  runs[1].parent = 0;
  runs[1].first_layer = 2;
  runs[1].first_position = 10;
  auto rows = RowsOf(runs);
  rows[0].layer_count = 4;
  refused(rows);
  rows = RowsOf(runs);
  rows[0].ids = rows[0].ids.subspan(0, 39);
  refused(rows);
  rows = RowsOf(runs);
  rows[1].parent_row = 1;
  refused(rows);
  rows = RowsOf(runs);
  rows[1].parent_row = -1;
  refused(rows);
  FamilyRun shallow = runs[0];
  shallow.prompt.layer_count = 4;
  shallow.prompt.norm = shallow.prompt.head = {};
  const auto states = Kept(shallow);
  // The rows look at their runs' ids: the run must outlive them.
  const std::vector<FamilyRun> branch = {runs[1]};
  rows = RowsOf(branch);
  rows[0].parent_row = -1;
  rows[0].parent_states = states.get();
  refused(rows);
  rows[0].layer_count = 4;
  rows[0].norm_positions = rows[0].head_positions = {};
  NoHooks hooks;
  model_->Forward(rows, {}, hooks);
  rows[0].states = states.get();
  refused(rows);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, SteppedForwards,
    testing::Combine(testing::ValuesIn(kTinyKinds),
                     testing::Values(DType::kF32, DType::kBF16)),
    [](const auto& info) {
      return Name(std::get<TinyKind>(info.param)) + "_" +
             std::string(Name(std::get<DType>(info.param)));
    });

}  // namespace
}  // namespace phitap
