#include "server/plan/sharing/extents.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "server/plan/edits/edited_part.h"

namespace phitap {
namespace {

int LayerOf(HookPoint point, const ModelSpec& spec) {
  if (point.hook == Hook::kLayerOutput) return point.layer + 1;
  if (HasLayer(point.hook)) return point.layer;
  return point.hook < Hook::kLayerInput ? 0 : static_cast<int>(spec.num_layers);
}

int64_t SmallestPosition(Hook hook, const ResolvedSelection& selection) {
  const std::optional<std::vector<int64_t>>& positions =
      IsPattern(hook) ? selection.queries : selection.positions;
  if (!positions.has_value() || positions->empty()) return 0;
  return *std::min_element(positions->begin(), positions->end());
}

}  // namespace

Corner WriteCorner(HookPoint point, const ResolvedSelection& selection,
                   const ModelSpec& spec) {
  return {.layer = LayerOf(point, spec),
          .position = SmallestPosition(point.hook, selection)};
}

Corner ReadCorner(HookPoint read_at, const ResolvedSelection& selection,
                  int64_t token_count, const ModelSpec& spec) {
  const int layer = LayerOf(read_at, spec);
  if (read_at.hook < Hook::kLayerInput) return {};
  if (read_at.hook == Hook::kNextTokenProbs) {
    return {.layer = layer, .position = token_count - 1};
  }
  return {.layer = layer,
          .position = SmallestPosition(read_at.hook, selection)};
}

}  // namespace phitap
