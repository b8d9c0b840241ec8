#include "client/cpp/positions.h"

#include <algorithm>

namespace phitap::client {

std::vector<int64_t> ResolveIndices(const v1::IndexSet& set, int64_t size) {
  std::vector<int64_t> resolved;
  const auto from_end = [size](int64_t index) {
    return index < 0 ? index + size : index;
  };
  const auto add = [&](int64_t index) {
    if (index >= 0 && index < size) resolved.push_back(index);
  };
  for (const int32_t index : set.indices()) add(from_end(index));
  for (const v1::IndexRange& range : set.ranges()) {
    const int64_t stop =
        range.has_stop() ? std::min(from_end(range.stop()), size) : size;
    const int64_t step = range.has_step() ? std::max(range.step(), 1) : 1;
    for (int64_t i = std::max<int64_t>(from_end(range.start()), 0); i < stop;
         i += step) {
      add(i);
    }
  }
  return resolved;
}

std::vector<int64_t> ResolvePositions(const v1::Selection& selection,
                                      absl::Span<const int32_t> ids) {
  if (selection.token_ids_size() > 0) {
    std::vector<int64_t> positions;
    for (size_t i = 0; i < ids.size(); ++i) {
      const auto& wanted = selection.token_ids();
      if (std::find(wanted.begin(), wanted.end(), ids[i]) != wanted.end()) {
        positions.push_back(static_cast<int64_t>(i));
      }
    }
    return positions;
  }
  const int64_t size = static_cast<int64_t>(ids.size());
  v1::IndexSet all;
  all.add_ranges();
  return ResolveIndices(selection.has_positions() ? selection.positions() : all,
                        size);
}

}  // namespace phitap::client
