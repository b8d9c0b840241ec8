#include "server/plan/program/shapes.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/plan/captures/selection.h"
#include "server/plan/saturating.h"

namespace phitap {

std::string ShapeText(const Shape& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

std::optional<Shape> BroadcastShape(const Shape& a, const Shape& b) {
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  Shape both = longer;
  const size_t lead = longer.size() - shorter.size();
  for (size_t i = 0; i < shorter.size(); ++i) {
    int64_t& size = both[lead + i];
    if (size != shorter[i] && size != 1 && shorter[i] != 1) return std::nullopt;
    if (size == 1) size = shorter[i];
  }
  return both;
}

bool BroadcastsTo(const Shape& from, const Shape& to) {
  return BroadcastShape(from, to) == to;
}

int64_t SaturatingElements(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1},
                         SaturatingMultiply);
}

Shape SelectedShape(Hook hook, const ResolvedSelection& selection,
                    const ModelSpec& spec, int64_t token_count) {
  const HookEntry& entry = EntryOf(hook);
  Shape shape;
  for (size_t axis = 0; axis < entry.dimensions.size(); ++axis) {
    const std::vector<int64_t>* kept = KeptIndices(selection, entry, axis);
    shape.push_back(kept == nullptr
                        ? SizeOf(entry.dimensions[axis], spec, token_count)
                        : static_cast<int64_t>(kept->size()));
  }
  return shape;
}

}  // namespace phitap
