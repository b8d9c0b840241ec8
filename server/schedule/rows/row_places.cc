#include "server/schedule/rows/row_places.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace phitap {
namespace {

// Roots that are tried for a row; those with the most tokens in common.
constexpr size_t kMaxMatches = 8;

// Brings a rectangle into what a root has: its residual streams where the row
// begins, its keys and values where the row goes on from them.
class RootFit {
 public:
  RootFit(const KeptRoot& root, const RowDraft& row) : root_(root), row_(row) {}

  void Fit(RowRectangle& rectangle) const {
    auto& [first_layer, first_position] = rectangle;
    const int layer_count = row_.asked.layer_count;
    if (first_layer < layer_count && layer_count > root_.layer_count) {
      first_position = 0;
    }
    // What rows below it begin with.
    if (layer_count >= root_.layer_count) {
      const int64_t missing = FirstMissing(row_.asked.tail_positions, 0);
      first_position = std::min(first_position, missing);
    }
    first_layer = std::min(first_layer, root_.layer_count);
    if (first_layer == root_.layer_count && !HoldsBeginning(rectangle)) {
      first_layer = std::max(0, first_layer - 1);
    }
  }

 private:
  // Whether the residual stream behind the root's last layer is there where the
  // row begins with it.
  bool HoldsBeginning(const RowRectangle& rectangle) const {
    if (rectangle.first_layer == row_.asked.layer_count) {
      return FirstMissing(row_.asked.tail_positions,
                          rectangle.first_position) == row_.token_count;
    }
    for (int64_t p = rectangle.first_position; p < row_.token_count; ++p) {
      if (!TailHas(p)) return false;
    }
    return true;
  }

  // The first of `positions` from `begin` on at which the root has no residual
  // stream behind its last layer; the row's end if there is none.
  int64_t FirstMissing(const std::vector<int64_t>& positions,
                       int64_t begin) const {
    const auto missing = std::find_if(
        std::lower_bound(positions.begin(), positions.end(), begin),
        positions.end(), [&](int64_t position) { return !TailHas(position); });
    return missing == positions.end() ? row_.token_count : *missing;
  }
  bool TailHas(int64_t position) const {
    return std::binary_search(root_.tail_positions.begin(),
                              root_.tail_positions.end(), position);
  }

  const KeptRoot& root_;
  const RowDraft& row_;
};

RowRectangle RectangleUnder(const RowForest& forest, const RowDraft& row,
                            const RootMatch& match) {
  const ComparedRow compared = forest.Compared(row);
  const int layer_count = row.asked.layer_count;
  RowRectangle rectangle =
      DifferenceOf(compared, layer_count, match.root->Compared(),
                   std::min(match.common_prefix, row.token_count))
          .rectangle;
  // Its values cannot be shown any more.
  rectangle.Include(row.first_asked.first_layer,
                    row.first_asked.first_position);
  if (row.last_position_asked) {
    rectangle.Include(rectangle.first_layer, row.token_count - 1);
  }
  const RootFit fit(*match.root, row);
  for (RowRectangle before; before != rectangle;) {
    before = rectangle;
    fit.Fit(rectangle);
    IncludeMixed(compared, layer_count, rectangle);
  }
  return rectangle;
}

// What a prompt has in common with its parent prompt tells most.
const PromptRoots& RootsOf(RowForest& forest, int prompt) {
  forest.prompt_roots.resize(forest.prompts.size());
  std::optional<PromptRoots>& known = forest.prompt_roots[prompt];
  if (known.has_value()) return *known;
  const SharedPrompt& shared = forest.prompts[prompt];
  PromptRoots made = {.prefixes = std::vector<int64_t>(forest.roots.size())};
  if (shared.parent >= 0) made = RootsOf(forest, shared.parent);
  made.matches.clear();
  for (size_t i = 0; i < forest.roots.size(); ++i) {
    int64_t& prefix = made.prefixes[i];
    const bool part_elsewhere =
        shared.parent >= 0 && prefix != shared.common_prefix;
    prefix = std::min(prefix, shared.common_prefix);
    if (!part_elsewhere) {
      prefix = CommonPrefix(shared.sequence,
                            forest.roots[i]->Compared().sequence, prefix);
    }
    if (prefix < kShortestCommonPrefix) continue;
    made.matches.push_back({.root = forest.roots[i], .common_prefix = prefix});
  }
  std::stable_sort(made.matches.begin(), made.matches.end(),
                   [](const RootMatch& a, const RootMatch& b) {
                     return a.common_prefix > b.common_prefix;
                   });
  made.matches.resize(std::min(made.matches.size(), kMaxMatches));
  return known.emplace(std::move(made));
}

// Makes the draft cover what a row below it takes.
void Take(const RowDraft& child, const RowPlace& place, RowDraft& row) {
  const RowTaking taking = {.asked = child.asked,
                            .rectangle = place.rectangle,
                            .token_count = child.token_count,
                            .taken = place.taken};
  taking.ExtendParent(row.asked);
  row.first_asked.Include(child.first_asked.first_layer,
                          child.first_asked.first_position);
  // Its runs may have this row's last position for their own.
  row.last_position_asked |= place.taken == Taken::kAll &&
                             child.token_count == row.token_count &&
                             child.last_position_asked;
}

}  // namespace

RowPlace PlaceUnder(const RowForest& forest, const RowDraft& row,
                    const RowDraft& parent) {
  using Cause = RowDifference::Cause;
  const ComparedRow compared = forest.Compared(row);
  const int layer_count = row.asked.layer_count;
  const RowDifference difference =
      DifferenceOf(compared, layer_count, forest.Compared(parent),
                   forest.CommonPrefixOf(row, parent));
  RowPlace place = {.rectangle = difference.rectangle,
                    .cause = difference.cause};
  RowRectangle& rectangle = place.rectangle;
  if (row.last_position_asked && !place.IsParent(row, parent)) {
    rectangle.Include(rectangle.first_layer, row.token_count - 1);
  }
  IncludeMixed(compared, layer_count, rectangle);
  const bool may_give_way =
      place.cause == Cause::kOwnWrites && !row.generates &&
      row.token_count == parent.token_count && rectangle.first_position > 0;
  if (may_give_way || rectangle.first_position >= row.token_count) {
    place.taken = Taken::kAll;
  }
  place.token_layers = TokenLayers(row.asked, rectangle, row.token_count);
  return place;
}

TopPlace PlaceAtTop(RowForest& forest, const RowDraft& row) {
  TopPlace best = {.token_layers = TokenLayers(row.asked, {}, row.token_count)};
  for (const RootMatch& match : RootsOf(forest, row.prompt).matches) {
    const RowRectangle rectangle = RectangleUnder(forest, row, match);
    const int64_t token_layers =
        TokenLayers(row.asked, rectangle, row.token_count);
    if (token_layers >= best.token_layers) continue;
    best = {.rectangle = rectangle,
            .root = match.root,
            .token_layers = token_layers};
  }
  return best;
}

void GatherAsked(const RowForest& forest, RowDraft& row) {
  row.token_count = row.max_token_count;
  row.asked = row.own_reach;
  row.first_asked = row.own_first_asked;
  row.last_position_asked = row.owns_last_position;
  int64_t token_count = 0;
  for (const int index : row.children) {
    const RowDraft& child = forest.drafts[index];
    const RowPlace place = PlaceUnder(forest, child, row);
    Take(child, place, row);
    const RowTaking taking = {.asked = child.asked,
                              .rectangle = place.rectangle,
                              .token_count = child.token_count,
                              .taken = place.taken};
    token_count = std::max(token_count, taking.ParentTokenCount());
  }
  if (!row.requested) row.token_count = token_count;
}

}  // namespace phitap
