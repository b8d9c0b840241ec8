#include "server/trace/pattern_capture.h"

#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <limits>

#include "server/trace/select.h"

namespace phitap {
namespace {

double InvisibleEntry(Hook hook) {
  return hook == Hook::kAttentionScores
             ? -std::numeric_limits<double>::infinity()
             : 0.0;
}

// target[:, lines] = part
void Place(const at::Tensor& target, std::vector<int64_t>& lines,
           const at::Tensor& part) {
  const int64_t count = static_cast<int64_t>(lines.size());
  if (std::is_sorted(lines.begin(), lines.end()) &&
      lines.back() - lines.front() + 1 == count) {
    target.narrow(1, lines.front(), count).copy_(part);
    return;
  }
  // A copy: a recorded graph keeps it until it is differentiated.
  target.index_copy_(1, at::tensor(lines), part);
}

}  // namespace

PatternCapture::PatternCapture(Hook hook, const ResolvedSelection& selection,
                               int64_t token_count)
    : selection_(selection),
      invisible_(InvisibleEntry(hook)),
      token_count_(token_count),
      line_of_query_(token_count, -1) {
  if (!selection.queries.has_value()) {
    for (int64_t q = 0; q < token_count; ++q) line_of_query_[q] = missing_++;
    return;
  }
  for (int64_t q : *selection.queries) line_of_query_[q] = missing_++;
}

bool PatternCapture::Wants(const PatternBlock& block) const {
  const auto begin = line_of_query_.begin() + block.first_query;
  return std::any_of(begin, begin + block.query_count,
                     [](int64_t line) { return line >= 0; });
}

void PatternCapture::Add(const PatternBlock& block, const at::Tensor& value) {
  std::vector<int64_t> queries;
  std::vector<int64_t> lines;
  for (int64_t q = 0; q < block.query_count; ++q) {
    const int64_t line =
        std::exchange(line_of_query_[block.first_query + q], -1);
    if (line < 0) continue;
    queries.push_back(q);
    lines.push_back(line);
  }
  if (queries.empty()) return;
  const at::Tensor part = SelectHeadsAndKeys(Pick(value, 1, queries));
  const std::optional<std::vector<int64_t>>& keys = selection_.keys;
  if (!gathered_.defined()) {
    const int64_t key_count =
        keys.has_value() ? static_cast<int64_t>(keys->size()) : token_count_;
    gathered_ = at::full({part.size(0), missing_, key_count}, invisible_,
                         part.options());
  }
  Place(gathered_.narrow(2, 0, part.size(2)), lines, part);
  missing_ -= static_cast<int64_t>(lines.size());
}

at::Tensor PatternCapture::SelectHeadsAndKeys(at::Tensor part) const {
  if (selection_.heads.has_value()) part = Pick(part, 0, *selection_.heads);
  const int64_t seen = std::min(part.size(2), token_count_);
  part = part.narrow(2, 0, seen);
  if (!selection_.keys.has_value()) return part;
  at::Tensor padded = at::full({part.size(0), part.size(1), token_count_},
                               invisible_, part.options());
  padded.narrow(2, 0, seen).copy_(part);
  return Pick(padded, 2, *selection_.keys);
}

}  // namespace phitap
