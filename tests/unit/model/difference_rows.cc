#include "tests/unit/model/difference_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <utility>

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

}  // namespace phitap
