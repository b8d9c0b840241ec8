#include "server/schedule/rows/row_reach.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/types/span.h"

namespace phitap {
namespace {

using Positions = absl::Span<const int64_t>;

bool Includes(Positions positions, Positions others) {
  return std::includes(positions.begin(), positions.end(), others.begin(),
                       others.end());
}

void Unite(std::vector<int64_t>& positions, Positions others) {
  if (Includes(positions, others)) return;
  std::vector<int64_t> united;
  united.reserve(positions.size() + others.size());
  std::set_union(positions.begin(), positions.end(), others.begin(),
                 others.end(), std::back_inserter(united));
  positions = std::move(united);
}

Positions Before(Positions positions, int64_t end) {
  return positions.first(
      std::lower_bound(positions.begin(), positions.end(), end) -
      positions.begin());
}

Positions From(Positions positions, int64_t begin) {
  return positions.subspan(Before(positions, begin).size());
}

std::vector<int64_t> ToVector(Positions positions) {
  return {positions.begin(), positions.end()};
}

// Makes `reach` go through `layer_count` layers, in the last of them to the end
// at those positions.
void ExtendLayers(Reach& reach, int layer_count, Positions tail) {
  if (layer_count < reach.layer_count) return;
  if (layer_count > reach.layer_count) reach.tail_positions.clear();
  reach.layer_count = layer_count;
  Unite(reach.tail_positions, tail);
}

}  // namespace

void Extend(Reach& reach, const Reach& more) {
  ExtendLayers(reach, more.layer_count, more.tail_positions);
  Unite(reach.norm_positions, more.norm_positions);
  Unite(reach.head_positions, more.head_positions);
}

bool Covers(const Reach& reach, const Reach& less) {
  if (reach.layer_count < less.layer_count) return false;
  return (reach.layer_count > less.layer_count ||
          Includes(reach.tail_positions, less.tail_positions)) &&
         Includes(reach.norm_positions, less.norm_positions) &&
         Includes(reach.head_positions, less.head_positions);
}

void RowTaking::ExtendParent(Reach& parent) const {
  const auto [first_layer, first_position] = rectangle;
  if (taken == Taken::kAll) return Extend(parent, asked);
  const bool computes_layers = first_layer < asked.layer_count;
  if (first_position == 0) {
    // The residual stream that the row begins with.
    if (!computes_layers) {
      return ExtendLayers(parent, first_layer, asked.tail_positions);
    }
    if (first_layer < parent.layer_count) return;
    std::vector<int64_t> all(token_count);
    std::iota(all.begin(), all.end(), 0);
    return ExtendLayers(parent, first_layer, all);
  }
  // That, and keys and values before the rectangle.
  ExtendLayers(parent, asked.layer_count,
               computes_layers ? Before(asked.tail_positions, first_position)
                               : Positions(asked.tail_positions));
  Unite(parent.norm_positions, Before(asked.norm_positions, first_position));
  Unite(parent.head_positions, Before(asked.head_positions, first_position));
}

int64_t RowTaking::ParentTokenCount() const {
  if (taken == Taken::kAll || rectangle.first_layer > 0) return token_count;
  return rectangle.first_position;
}

Reach Within(const Reach& asked, const RowRectangle& rectangle) {
  const int64_t begin = rectangle.first_position;
  return {.layer_count = asked.layer_count,
          .tail_positions = ToVector(From(asked.tail_positions, begin)),
          .norm_positions = ToVector(From(asked.norm_positions, begin)),
          .head_positions = ToVector(From(asked.head_positions, begin))};
}

int64_t TokenLayers(const Reach& asked, const RowRectangle& rectangle,
                    int64_t token_count) {
  const int layers = asked.layer_count - rectangle.first_layer;
  if (layers <= 0) return 0;
  const int64_t tail = static_cast<int64_t>(
      From(asked.tail_positions, rectangle.first_position).size());
  return (layers - 1) * (token_count - rectangle.first_position) + tail;
}

}  // namespace phitap
