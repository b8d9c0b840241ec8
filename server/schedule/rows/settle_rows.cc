#include "server/schedule/rows/settle_rows.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "server/schedule/rows/row_places.h"

namespace phitap {
namespace {

class Settling {
 public:
  explicit Settling(RowForest& forest) : forest_(forest) {}

  // The rows that stand for `draft` and those below it under `parent` (−1: at
  // the top), with what is asked of each.
  std::vector<int> Settle(int draft, int parent) {
    std::vector<int> children;
    for (const int child : std::exchange(Draft(draft).children, {})) {
      const std::vector<int> settled = Settle(child, draft);
      children.insert(children.end(), settled.begin(), settled.end());
    }
    Draft(draft).children = children;
    GatherAsked(forest_, Draft(draft));
    if (children.empty()) {
      if (!Draft(draft).requested) return {};
      return {draft};
    }
    return Cheapest(draft, parent);
  }

 private:
  struct Promotion {
    RowDraft promoted;
    int draft = -1;
    int64_t token_layers = 0;
  };

  RowDraft& Draft(int draft) { return forest_.drafts[draft]; }

  // Keeps the draft over its children, puts one of them in its place, or lets
  // all of them stand beside it.
  std::vector<int> Cheapest(int draft, int parent) {
    const std::vector<int> children = Draft(draft).children;
    if (!Draft(draft).requested) Shorten(draft, parent);
    const int64_t kept = TokenLayersWithChildren(Draft(draft), parent);
    int64_t apart = 0;
    for (const int child : children) {
      apart += TokenLayersUnder(Draft(child), parent);
    }
    RowDraft alone = Draft(draft);
    alone.children.clear();
    GatherAsked(forest_, alone);
    if (alone.requested) apart += TokenLayersUnder(alone, parent);
    const std::optional<Promotion> promotion = Promote(alone, draft, parent);
    // Under a row that is no child a child may turn out not to be another, and
    // a few more rows cost little: only what saves much is put in its place.
    const bool promotes =
        promotion.has_value() && promotion->token_layers * 8 <= kept * 7;
    const int64_t under_one = promotes ? promotion->token_layers : kept;
    if (apart <= under_one) {
      Draft(draft) = alone;
      std::vector<int> all = children;
      if (alone.requested) all.push_back(draft);
      return all;
    }
    if (!promotes) return {draft};
    Draft(draft) = alone;
    Draft(promotion->draft) = promotion->promoted;
    return {promotion->draft};
  }

  // Has nobody asked for the draft, it may be cheaper to end it where the last
  // of other prompts leaves it: the rest is then computed for its own prompt's
  // run alone.
  void Shorten(int draft, int parent) {
    RowDraft shorter = Draft(draft);
    shorter.max_token_count = 0;
    for (const int index : Draft(draft).children) {
      const RowDraft& child = Draft(index);
      if (child.prompt == shorter.prompt) continue;
      shorter.max_token_count = std::max(
          shorter.max_token_count, forest_.CommonPrefixOf(child, Draft(draft)));
    }
    if (shorter.max_token_count == 0) return;
    GatherAsked(forest_, shorter);
    if (TokenLayersWithChildren(shorter, parent) <
        TokenLayersWithChildren(Draft(draft), parent)) {
      Draft(draft) = std::move(shorter);
    }
  }

  // The child that has least of its own in place of the draft, which stands
  // `alone` under it; none where no child can be a parent.
  std::optional<Promotion> Promote(const RowDraft& alone, int draft,
                                   int parent) {
    const std::vector<int>& children = Draft(draft).children;
    Promotion best;
    int64_t least = 0;
    for (const int child : children) {
      if (!AllStatic(Draft(child).writes)) continue;
      const int64_t own =
          PlaceUnder(forest_, Draft(child), Draft(draft)).token_layers;
      if (best.draft >= 0 && own >= least) continue;
      best.draft = child;
      least = own;
    }
    if (best.draft < 0) return std::nullopt;
    best.promoted = Draft(best.draft);
    for (const int child : children) {
      if (child != best.draft) best.promoted.children.push_back(child);
    }
    if (alone.requested) best.promoted.children.push_back(draft);
    // While it is being weighed, the draft stands there without children.
    RowDraft with_children = std::exchange(Draft(draft), alone);
    GatherAsked(forest_, best.promoted);
    best.token_layers = TokenLayersWithChildren(best.promoted, parent);
    for (const int child : Draft(best.draft).children) {
      // Those stood under the child before, and count on either side.
      best.token_layers -=
          PlaceUnder(forest_, Draft(child), best.promoted).token_layers;
    }
    Draft(draft) = std::move(with_children);
    return best;
  }

  int64_t TokenLayersUnder(const RowDraft& row, int parent) {
    if (parent < 0) return PlaceAtTop(forest_, row).token_layers;
    return PlaceUnder(forest_, row, Draft(parent)).token_layers;
  }

  int64_t TokenLayersWithChildren(const RowDraft& row, int parent) {
    int64_t token_layers = TokenLayersUnder(row, parent);
    for (const int child : row.children) {
      token_layers += PlaceUnder(forest_, Draft(child), row).token_layers;
    }
    return token_layers;
  }

  RowForest& forest_;
};

// Gives every row its place in the end: what is asked of each is known once it
// is known which rows stay below it.
class Placing {
 public:
  explicit Placing(RowForest& forest) : forest_(forest) {}

  // Also of a draft without children.
  void PlaceTop(int draft) {
    PlaceChildren(draft);
    const RowDraft& row = forest_.drafts[draft];
    if (!row.requested && row.children.empty()) return;
    SetTop(draft, PlaceAtTop(forest_, row));
  }

  int64_t token_layers() const { return token_layers_; }
  const std::vector<int>& tops() const { return tops_; }

 private:
  void PlaceChildren(int draft) {
    std::vector<int> staying;
    for (const int child : std::exchange(forest_.drafts[draft].children, {})) {
      PlaceChildren(child);
      const RowPlace place =
          PlaceUnder(forest_, forest_.drafts[child], forest_.drafts[draft]);
      const TopPlace at_top = PlaceAtTop(forest_, forest_.drafts[child]);
      if (place.rectangle.is_everything() ||
          at_top.token_layers < place.token_layers) {
        SetTop(child, at_top);
      } else {
        staying.push_back(child);
      }
    }
    RowDraft& row = forest_.drafts[draft];
    row.children = std::move(staying);
    GatherAsked(forest_, row);
    for (const int index : row.children) {
      RowDraft& child = forest_.drafts[index];
      const RowPlace place = PlaceUnder(forest_, child, row);
      child.parent = draft;
      child.rectangle = place.rectangle;
      token_layers_ += place.token_layers;
    }
  }

  void SetTop(int draft, const TopPlace& place) {
    RowDraft& row = forest_.drafts[draft];
    row.parent = -1;
    row.rectangle = place.rectangle;
    row.root = place.root;
    token_layers_ += place.token_layers;
    tops_.push_back(draft);
  }

  RowForest& forest_;
  int64_t token_layers_ = 0;
  std::vector<int> tops_;
};

void AddRequested(const RowForest& forest, int draft, std::vector<int>& found) {
  if (forest.drafts[draft].requested) found.push_back(draft);
  for (const int child : forest.drafts[draft].children) {
    AddRequested(forest, child, found);
  }
}

// Settles what may go on from one top, and adds the tops that come of it.
void SettleTop(int top, RowForest& forest, std::vector<int>& tops) {
  std::vector<int> requested;
  AddRequested(forest, top, requested);
  int64_t alone = 0;
  for (const int draft : requested) {
    const RowDraft& row = forest.drafts[draft];
    alone += TokenLayers(row.own_reach, {}, row.token_count);
  }
  Placing placing(forest);
  for (const int draft : Settling(forest).Settle(top, -1)) {
    placing.PlaceTop(draft);
  }
  if (placing.token_layers() <= alone) {
    const std::vector<int>& placed = placing.tops();
    tops.insert(tops.end(), placed.begin(), placed.end());
    return;
  }
  Placing apart(forest);
  for (const int draft : requested) {
    forest.drafts[draft].children.clear();
    apart.PlaceTop(draft);
  }
  tops.insert(tops.end(), apart.tops().begin(), apart.tops().end());
}

}  // namespace

void SettleRows(RowForest& forest) {
  std::vector<int> tops;
  for (const int top : forest.tops) SettleTop(top, forest, tops);
  forest.tops = std::move(tops);
}

}  // namespace phitap
