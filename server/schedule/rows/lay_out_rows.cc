#include "server/schedule/rows/lay_out_rows.h"

#include <utility>
#include <vector>

#include "server/schedule/rows/row_places.h"

namespace phitap {
namespace {

class RowLayout {
 public:
  RowLayout(const RowForest& forest, const SharingKey& key, RootTable& roots,
            WavePlan& wave)
      : forest_(forest),
        key_(key),
        roots_(roots),
        wave_(wave),
        row_of_draft_(forest.drafts.size(), -1) {}

  void AddTop(int draft) {
    const RowDraft& top = forest_.drafts[draft];
    WaveRow row = RowOf(top);
    if (top.root != nullptr) {
      row.parent_root = top.root->id;
    } else {
      row.keep_as = roots_.Reserve(key_, forest_.Compared(top), top.asked);
    }
    Add(draft, std::move(row));
  }

  void TellRuns() {
    for (size_t run = 0; run < wave_.runs.size(); ++run) {
      const int draft = forest_.draft_of_run[run];
      if (draft >= 0) wave_.runs[run].row = row_of_draft_[draft];
    }
  }

 private:
  static WaveRow RowOf(const RowDraft& draft) {
    WaveRow row = {.leader = draft.leader,
                   .token_count = draft.token_count,
                   .first_layer = draft.rectangle.first_layer,
                   .first_position = draft.rectangle.first_position,
                   .reach = Within(draft.asked, draft.rectangle)};
    for (const WriteExtent& write : draft.writes) {
      if (write.first_layer >= row.first_layer &&
          write.first_position < row.token_count) {
        row.writes.push_back(write.write);
      }
    }
    return row;
  }

  void Add(int draft, WaveRow row) {
    row_of_draft_[draft] = static_cast<int>(wave_.rows.size());
    wave_.rows.push_back(std::move(row));
    AddChildren(draft);
  }

  void AddChildren(int parent) {
    for (const int child : forest_.drafts[parent].children) {
      AddChild(child, parent);
    }
  }

  void AddChild(int draft, int parent) {
    const RowDraft& child = forest_.drafts[draft];
    const RowDraft& above = forest_.drafts[parent];
    const RowPlace place = PlaceUnder(forest_, child, above);
    if (place.IsParent(child, above)) {
      row_of_draft_[draft] = row_of_draft_[parent];
      return AddChildren(draft);
    }
    WaveRow row = RowOf(child);
    row.parent = row_of_draft_[parent];
    if (place.cause == RowDifference::Cause::kOwnWrites &&
        MayGiveWay(child, above)) {
      for (const WriteExtent& write :
           WritesBeyond(child.writes, above.writes)) {
        row.differing_writes.push_back(write.write);
      }
    }
    Add(draft, std::move(row));
  }

  static bool MayGiveWay(const RowDraft& child, const RowDraft& parent) {
    return !child.generates && child.token_count == parent.token_count &&
           Covers(parent.asked, child.asked) &&
           (parent.last_position_asked || !child.last_position_asked);
  }

  const RowForest& forest_;
  const SharingKey& key_;
  RootTable& roots_;
  WavePlan& wave_;
  std::vector<int> row_of_draft_;
};

}  // namespace

void LayOutRows(const RowForest& forest, const SharingKey& key,
                RootTable& roots, WavePlan& wave) {
  // All of them before any might give way to one that is to be kept.
  for (const int top : forest.tops) {
    const KeptRoot* root = forest.drafts[top].root;
    if (root != nullptr) roots.Use(root->id);
  }
  RowLayout layout(forest, key, roots, wave);
  for (const int top : forest.tops) layout.AddTop(top);
  layout.TellRuns();
}

}  // namespace phitap
