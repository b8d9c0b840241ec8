#include "tests/unit/model/difference_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "server/model/visibility.h"
#include "server/spec/hook_point.h"

namespace phitap {
namespace {

bool IsOfHead(Hook hook) {
  return hook == Hook::kFinalNormOutput || hook == Hook::kLmHeadOutput ||
         hook == Hook::kLogits;
}

absl::Span<const int64_t> From(const std::vector<int64_t>& positions,
                               int64_t first) {
  const auto begin =
      std::lower_bound(positions.begin(), positions.end(), first);
  return absl::MakeConstSpan(positions).subspan(begin - positions.begin());
}

// Of the run's positions, those that the row shows at the hook point.
std::vector<int64_t> ShownAt(const FamilyRun& run, Hook hook, int layer) {
  const auto of = [&](const std::vector<int64_t>& positions) {
    const auto from = From(positions, run.first_position);
    return std::vector<int64_t>(from.begin(), from.end());
  };
  if (IsOfHead(hook)) {
    return of(hook == Hook::kFinalNormOutput ? run.prompt.norm
                                             : run.prompt.head);
  }
  if (layer < 0) {
    if (run.first_layer > 0) return {};
    std::vector<int64_t> all(run.prompt.token_count());
    std::iota(all.begin(), all.end(), 0);
    return of(all);
  }
  const bool joins = layer == run.first_layer - 1 && hook == Hook::kLayerOutput;
  if (!joins && (layer < run.first_layer || layer >= run.prompt.layer_count)) {
    return {};
  }
  const bool in_tail = layer == run.prompt.layer_count - 1 &&
                       hook >= Hook::kAttentionHeadOutputs;
  if (in_tail) return of(run.prompt.tail);
  std::vector<int64_t> all(run.prompt.token_count());
  std::iota(all.begin(), all.end(), 0);
  return of(all);
}

bool IsPerRow(Hook hook) {
  return hook == Hook::kInputSize || hook == Hook::kNextTokenProbs;
}

}  // namespace

std::unique_ptr<Phi3> DeepModel(TinyKind kind, DType dtype) {
  const TempFolder folder;
  nlohmann::json config = TinyConfig(kind);
  config["num_hidden_layers"] = kDeepLayers;
  SeededCheckpoint(config, {.dtype = dtype}).Write(folder);
  return Phi3::Load(Checkpoint::Open(folder.path()).value(), dtype).value();
}

int FirstLayerOf(const PlaceEdit& edit) {
  if (IsOfHead(edit.point.hook)) return kDeepLayers;
  if (edit.point.hook == Hook::kTokenEmbeddings) return 0;
  return edit.point.layer + (edit.point.hook == Hook::kLayerOutput ? 1 : 0);
}

ForwardRow FamilyRun::WholeRow() const {
  ForwardRow row = prompt.Row();
  row.long_factors = long_factors;
  return row;
}

ForwardRow FamilyRun::DifferenceRow() const {
  ForwardRow row = WholeRow();
  row.ids = row.ids.subspan(first_position);
  row.position_ids = row.position_ids.subspan(first_position);
  row.first_position = first_position;
  row.first_layer = first_layer;
  row.parent_row = parent;
  row.parent_states = parent_states;
  row.tail_positions = From(prompt.tail, first_position);
  row.norm_positions = From(prompt.norm, first_position);
  row.head_positions = From(prompt.head, first_position);
  return row;
}

RowEditingHooks::RowEditingHooks(const std::vector<FamilyRun>& runs)
    : RecordingHooks(
          [&] {
            std::vector<int64_t> counts;
            for (const FamilyRun& run : runs) {
              counts.push_back(run.prompt.token_count());
            }
            return counts;
          }(),
          [](Hook) { return true; }) {
  for (const FamilyRun& run : runs) edits_.push_back(run.edits);
}

at::Tensor RowEditingHooks::Visit(HookPoint point, at::Tensor value,
                                  const TokenLayout& layout) {
  bool cloned = false;
  for (const TokenLayout::Row& row : layout.rows) {
    for (const PlaceEdit& edit : edits_[row.row]) {
      const auto at =
          std::find(row.positions.begin(), row.positions.end(), edit.position);
      if (edit.point != point || at == row.positions.end()) continue;
      if (!std::exchange(cloned, true)) value = value.clone();
      value.select(0, row.begin + (at - row.positions.begin()))
          .fill_(edit.value);
    }
  }
  return RecordingHooks::Visit(point, value, layout);
}

at::Tensor RowEditingHooks::VisitPattern(HookPoint point,
                                         const PatternBlock& block,
                                         at::Tensor value) {
  for (const PlaceEdit& edit : edits_[block.row]) {
    const int64_t query = edit.position - block.first_query;
    if (edit.point != point || query < 0 || query >= block.query_count) {
      continue;
    }
    value = value.clone();
    value.select(1, query).select(1, edit.key).fill_(edit.value);
  }
  return RecordingHooks::VisitPattern(point, block, value);
}

std::vector<int> RowEditingHooks::AfterLayer(int layer,
                                             const TokenLayout& layout) {
  for (const TokenLayout::Row& row : layout.rows) last_layers[row.row] = layer;
  return drops[layer];
}

Records Alone(const Phi3& model, const FamilyRun& run,
              const ForwardOptions& options) {
  FamilyRun whole = run;
  whole.prompt.layer_count = kDeepLayers;
  whole.prompt.tail = whole.prompt.norm = whole.prompt.head = {};
  for (int64_t i = 0; i < run.prompt.token_count(); ++i) {
    whole.prompt.tail.push_back(i);
  }
  whole.prompt.norm = whole.prompt.head = whole.prompt.tail;
  RowEditingHooks hooks({whole});
  const ForwardRow row = whole.WholeRow();
  model.Forward({&row, 1}, options, hooks);
  return hooks.records();
}

int ExpectRow(const Records& shown, int row, const FamilyRun& run,
              const Records& alone) {
  int compared = 0;
  for (const auto& [key, whole] : alone) {
    const RecordingHooks::Key in_wave{
        .row = row, .hook = key.hook, .layer = key.layer};
    const auto found = shown.find(in_wave);
    if (IsPerRow(key.hook)) continue;
    const std::vector<int64_t> expected = ShownAt(run, key.hook, key.layer);
    EXPECT_EQ(found != shown.end(), !expected.empty()) << NameOf(in_wave);
    if (found == shown.end() || expected.empty()) continue;
    EXPECT_EQ(found->second.positions, expected) << NameOf(in_wave);
    const at::Tensor at = at::tensor(at::ArrayRef<int64_t>(expected));
    EXPECT_TRUE(SameBits(found->second.value,
                         whole.value.index_select(IsPattern(key.hook), at)))
        << NameOf(in_wave) << ", layers from " << run.first_layer
        << ", positions from " << run.first_position << " of "
        << run.prompt.token_count() << ", parent " << run.parent;
    ++compared;
  }
  const RecordingHooks::Key last{.row = row, .hook = Hook::kNextTokenProbs};
  const bool has_last = !run.prompt.head.empty() &&
                        run.prompt.head.back() + 1 == run.prompt.token_count();
  EXPECT_EQ(shown.contains(last), has_last) << NameOf(last);
  if (!has_last || !shown.contains(last)) return compared;
  RecordingHooks::Key of_alone = last;
  of_alone.row = 0;
  EXPECT_TRUE(SameBits(shown.at(last).value, alone.at(of_alone).value));
  return compared + 1;
}

FamilyRun FamilyDraw::Root(int64_t token_count) {
  FamilyRun run{.prompt = RandomPrompt(model_, token_count, random_)};
  const auto& longrope = model_.spec().longrope;
  run.long_factors =
      longrope && *std::max_element(run.prompt.position_ids.begin(),
                                    run.prompt.position_ids.end()) +
                          1 >
                      longrope->original_max_positions;
  Edits(run, 2);
  return run;
}

PlaceEdit FamilyDraw::Edit(const FamilyRun& run) {
  constexpr double kValues[] = {0.5,
                                -2.0,
                                3.0,
                                std::numeric_limits<double>::quiet_NaN(),
                                std::numeric_limits<double>::infinity(),
                                -std::numeric_limits<double>::infinity()};
  const Visibility visibility(model_.spec().sliding_window, run.prompt.hidden);
  while (true) {
    const Hook hook = static_cast<Hook>(Draw(0, kHookCount - 1));
    if (EntryOf(hook).access != Access::kReadWrite) continue;
    if (IsPattern(hook) && options_.attention == ForwardAttention::kSdpa) {
      continue;
    }
    PlaceEdit edit{.point = {hook, HasLayer(hook) ? static_cast<int>(Draw(
                                                        0, kDeepLayers - 1))
                                                  : -1},
                   .position = Draw(0, run.prompt.token_count() - 1),
                   .value = kValues[Draw(0, Draw(0, 1) == 0 ? 2 : 5)]};
    edit.key = Draw(0, edit.position);
    if (IsPattern(hook) && !visibility.Sees(edit.position, edit.key)) continue;
    return edit;
  }
}

void FamilyDraw::Edits(FamilyRun& run, int64_t most) {
  for (int64_t i = Draw(0, most); i > 0; --i) run.edits.push_back(Edit(run));
}

void FamilyDraw::Diverge(const FamilyRun& parent, FamilyRun& run) {
  const int64_t shared = Draw(1, parent.prompt.token_count() - 1);
  FamilyRun other;
  do {
    other = Root(shared + Draw(1, 50));
  } while (other.long_factors != parent.long_factors);
  const auto take = [&](auto& to, const auto& from) {
    std::copy(from.begin(), from.begin() + shared, to.begin());
  };
  run = other;
  take(run.prompt.ids, parent.prompt.ids);
  take(run.prompt.position_ids, parent.prompt.position_ids);
  run.prompt.hidden.clear();
  for (const int64_t position : parent.prompt.hidden) {
    if (position < shared) run.prompt.hidden.push_back(position);
  }
  for (const int64_t position : other.prompt.hidden) {
    if (position >= shared) run.prompt.hidden.push_back(position);
  }
  std::erase_if(run.edits, [&](const PlaceEdit& edit) {
    return edit.position < shared || IsPattern(edit.point.hook);
  });
  for (const PlaceEdit& edit : parent.edits) {
    if (edit.position < shared) run.edits.push_back(edit);
  }
  run.first_layer = 0;
  run.first_position = shared;
}

void FamilyDraw::CutOut(const FamilyRun& parent, FamilyRun& run) {
  run = parent;
  std::vector<PlaceEdit> differing;
  for (int64_t i = Draw(0, 1); i > 0 && !run.edits.empty(); --i) {
    const auto gone =
        run.edits.begin() + Draw(0, static_cast<int64_t>(run.edits.size()) - 1);
    differing.push_back(*gone);
    run.edits.erase(gone);
  }
  for (int64_t i = Draw(differing.empty() ? 1 : 0, 2); i > 0; --i) {
    run.edits.push_back(Edit(run));
    differing.push_back(run.edits.back());
  }
  run.first_layer = kDeepLayers;
  run.first_position = run.prompt.token_count() - 1;
  for (const PlaceEdit& edit : differing) {
    run.first_layer = std::min(run.first_layer, FirstLayerOf(edit));
    run.first_position = std::min(run.first_position, edit.position);
  }
  // More than it must is as good.
  if (Draw(0, 3) == 0)
    run.first_layer = static_cast<int>(Draw(0, run.first_layer));
  if (Draw(0, 3) == 0) run.first_position = Draw(0, run.first_position);
}

FamilyRun FamilyDraw::Child(const FamilyRun& parent, int parent_row) {
  FamilyRun run;
  if (Draw(0, 2) == 0 && parent.prompt.token_count() > 1) {
    Diverge(parent, run);
  } else {
    CutOut(parent, run);
  }
  run.parent = parent_row;
  run.parent_states = nullptr;
  return run;
}

void FamilyDraw::AskForLess(FamilyRun& run) {
  run.prompt.layer_count = static_cast<int>(Draw(run.first_layer, kDeepLayers));
  const auto keep = [&](std::vector<int64_t> from) {
    const int64_t one_in = Draw(1, 8);
    std::erase_if(from, [&](int64_t) { return Draw(1, one_in) != 1; });
    return from;
  };
  run.prompt.tail = keep(run.prompt.tail);
  run.prompt.norm = run.prompt.head = {};
  if (run.prompt.layer_count < kDeepLayers) return;
  run.prompt.norm = keep(run.prompt.tail);
  run.prompt.head = keep(run.prompt.norm);
}

}  // namespace phitap
