// SPDX-License-Identifier: Apache-2.0
#include "server/model/joined_lines.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <map>
#include <vector>

#include "absl/types/span.h"
#include "server/model/line_kernels.h"
#include "server/model/row_states.h"

namespace phitap {
namespace {

// A row's lines, one for each of its positions.
struct RowLines {
  absl::Span<const int64_t> positions;
  const at::Tensor* matrix = nullptr;
  int64_t begin = 0;
};

// A matrix put together from lines of others.
class LineCopies {
 public:
  // [line_count, D], of elements like those of `like` [T, D].
  LineCopies(const at::Tensor& like, int64_t line_count)
      : out_(at::empty({line_count, like.size(1)}, like.options())) {}

  // The lines of `positions`, all of which `from` has.
  void Take(absl::Span<const int64_t> positions, const RowLines& from) {
    auto held = from.positions.begin();
    for (size_t begin = 0, end; begin < positions.size(); begin = end) {
      held = std::lower_bound(held, from.positions.end(), positions[begin]);
      const auto first = held;
      for (end = begin; end < positions.size() &&
                        held != from.positions.end() && *held == positions[end];
           ++end) {
        ++held;
      }
      TORCH_CHECK(end > begin, "the parent has no line at position ",
                  positions[begin]);
      Copy(*from.matrix, from.begin + (first - from.positions.begin()),
           held - first);
    }
  }

  // With zeros for the lines that are left.
  at::Tensor Finish() {
    out_.narrow(0, filled_, out_.size(0) - filled_).zero_();
    return out_;
  }

 private:
  void Copy(const at::Tensor& from, int64_t first_line, int64_t count) {
    CopyLines(from.narrow(0, first_line, count),
              out_.narrow(0, filled_, count));
    filled_ += count;
  }

  at::Tensor out_;
  int64_t filled_ = 0;
};

absl::Span<const int64_t> Within(const std::vector<int64_t>& positions,
                                 const OwnedStretch& part) {
  const auto begin =
      std::lower_bound(positions.begin(), positions.end(), part.begin);
  const auto end = std::lower_bound(begin, positions.end(), part.end);
  return absl::MakeConstSpan(positions).subspan(begin - positions.begin(),
                                                end - begin);
}

}  // namespace

at::Tensor JoinLines(const WaveLines& from, const TokenLayout& to,
                     const RowTree& tree, int layer, int64_t line_count) {
  std::map<int, RowLines> held;
  for (const TokenLayout::Row& row : from.layout.rows) {
    held[row.row] = {
        .positions = row.positions, .matrix = &from.lines, .begin = row.begin};
  }
  LineCopies copies(from.lines, line_count);
  for (const TokenLayout::Row& row : to.rows) {
    if (const auto own = held.find(row.row); own != held.end()) {
      copies.Take(row.positions, own->second);
      continue;
    }
    for (const OwnedStretch& part : tree.OwnersOf(row.row, layer)) {
      const absl::Span<const int64_t> taken = Within(row.positions, part);
      if (taken.empty()) continue;
      if (part.owner != kKeptRow) {
        copies.Take(taken, held[part.owner]);
        continue;
      }
      const LayerResidual& kept = tree.KeptRootOf(row.row)->residual(layer);
      copies.Take(taken, {.positions = kept.positions, .matrix = &kept.lines});
    }
  }
  return copies.Finish();
}

}  // namespace phitap
