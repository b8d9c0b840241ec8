#include "server/trace/select.h"

#include <ATen/ops/tensor.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <optional>

#include "server/spec/hook_point.h"

namespace phitap {
namespace {

// Lines of the row's matrix that hold `positions`.
std::vector<int64_t> LinesOf(const TokenLayout::Row& row,
                             const std::vector<int64_t>& positions) {
  std::vector<int64_t> lines;
  lines.reserve(positions.size());
  for (int64_t position : positions) {
    const auto at =
        std::lower_bound(row.positions.begin(), row.positions.end(), position);
    TORCH_CHECK(at != row.positions.end() && *at == position, "position ",
                position, " of the row is not computed here");
    lines.push_back(row.begin + (at - row.positions.begin()));
  }
  return lines;
}

// The indices that a capture keeps of a dimension other than the positions.
const std::optional<std::vector<int64_t>>* IndicesOf(
    const ResolvedSelection& selection, Dimension dimension, bool last) {
  switch (dimension) {
    case Dimension::kNumHeads:
    case Dimension::kNumKvHeads:
      return &selection.heads;
    case Dimension::kQuery:
      return &selection.queries;
    case Dimension::kKey:
      return &selection.keys;
    default:
      return last ? &selection.features : nullptr;
  }
}

}  // namespace

bool Consecutive(const std::vector<int64_t>& indices) {
  for (size_t i = 1; i < indices.size(); ++i) {
    if (indices[i] != indices[i - 1] + 1) return false;
  }
  return true;
}

at::Tensor Pick(const at::Tensor& value, int64_t dimension,
                const std::vector<int64_t>& indices) {
  const int64_t count = static_cast<int64_t>(indices.size());
  if (Consecutive(indices)) {
    return value.narrow(dimension, count == 0 ? 0 : indices[0], count);
  }
  // A copy: a recorded graph keeps it until it is differentiated.
  return value.index_select(dimension, at::tensor(indices));
}

int64_t SeqDimension(Hook hook) {
  const std::vector<Dimension>& dimensions = EntryOf(hook).dimensions;
  const auto at =
      std::find(dimensions.begin(), dimensions.end(), Dimension::kSeq);
  return at == dimensions.end() ? -1 : at - dimensions.begin();
}

at::Tensor SelectLines(const at::Tensor& value,
                       const std::vector<int64_t>& lines, Hook hook,
                       const ResolvedSelection& selection) {
  at::Tensor part = Pick(value, 0, lines);
  const int64_t seq = SeqDimension(hook);
  if (seq < 0) part = part.squeeze(0);
  if (seq > 0) part = part.transpose(0, seq);
  const std::vector<Dimension>& dimensions = EntryOf(hook).dimensions;
  for (size_t d = 0; d < dimensions.size(); ++d) {
    const auto* indices =
        IndicesOf(selection, dimensions[d], d + 1 == dimensions.size());
    if (indices == nullptr || !indices->has_value()) continue;
    part = Pick(part, static_cast<int64_t>(d), **indices);
  }
  return part;
}

at::Tensor SelectRow(const at::Tensor& value, const TokenLayout::Row& row,
                     Hook hook, const ResolvedSelection& selection) {
  return SelectLines(value,
                     LinesOf(row, selection.positions.value_or(row.positions)),
                     hook, selection);
}

}  // namespace phitap
