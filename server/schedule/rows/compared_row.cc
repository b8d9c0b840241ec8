#include "server/schedule/rows/compared_row.h"

#include <algorithm>
#include <utility>

namespace phitap {
namespace {

bool SameEffect(const WriteExtent& a, const WriteExtent& b) {
  return a.is_static() && a.digest == b.digest;
}

// Pairs writes of `a` with writes of `b` that do the same, in an order that
// both keep, and calls each visitor with what it is for, `a` and pairs in
// order: first what is alike at the beginning and the end, which most often is
// all, between them greedily by the next of the shorter.
template <typename Both, typename OnlyA, typename OnlyB>
void PairWrites(absl::Span<const WriteExtent> a,
                absl::Span<const WriteExtent> b, Both both, OnlyA only_a,
                OnlyB only_b) {
  size_t end_a = a.size();
  size_t end_b = b.size();
  size_t i = 0;
  while (i < end_a && i < end_b && SameEffect(a[i], b[i])) both(a[i++]);
  size_t j = i;
  while (end_a > i && end_b > j && SameEffect(a[end_a - 1], b[end_b - 1])) {
    --end_a;
    --end_b;
  }
  const bool by_a = end_a - i <= end_b - j;
  while (by_a ? i < end_a : j < end_b) {
    const WriteExtent& next = by_a ? a[i] : b[j];
    size_t k = by_a ? j : i;
    const size_t end = by_a ? end_b : end_a;
    while (k < end && !SameEffect(next, by_a ? b[k] : a[k])) ++k;
    if (k == end) {
      by_a ? only_a(a[i++]) : only_b(b[j++]);
      continue;
    }
    const size_t pair_a = by_a ? i : k;
    const size_t pair_b = by_a ? k : j;
    while (i < pair_a) only_a(a[i++]);
    while (j < pair_b) only_b(b[j++]);
    both(a[i++]);
    ++j;
  }
  while (i < end_a) only_a(a[i++]);
  while (j < end_b) only_b(b[j++]);
  while (i < a.size()) both(a[i++]);
}

constexpr auto kIgnore = [](const WriteExtent&) {};

}  // namespace

void RowRectangle::Include(int layer, int64_t position) {
  first_layer = std::min(first_layer, layer);
  first_position = std::min(first_position, position);
}

RowDifference DifferenceOf(const ComparedRow& row, int layer_count,
                           const ComparedRow& parent, int64_t common_prefix) {
  using Cause = RowDifference::Cause;
  const int64_t token_count = row.sequence.size();
  RowDifference difference = {
      .rectangle = {.first_layer = layer_count, .first_position = token_count}};
  const auto include = [&](Cause cause, int layer, int64_t position) {
    if (position >= token_count) return;
    difference.cause = std::max(difference.cause, cause);
    difference.rectangle.Include(layer, position);
  };
  include(Cause::kOther, 0, common_prefix);
  PairWrites(
      WritesWithin(row.writes, layer_count),
      WritesWithin(parent.writes, layer_count), kIgnore,
      [&](const WriteExtent& write) {
        include(Cause::kOwnWrites, write.first_layer, write.first_position);
      },
      [&](const WriteExtent& write) {
        include(Cause::kOther, write.first_layer, write.first_position);
      });
  return difference;
}

void IncludeMixed(const ComparedRow& row, int layer_count,
                  RowRectangle& rectangle) {
  if (rectangle.first_position >= row.sequence.size()) return;
  for (const WriteExtent& write : WritesWithin(row.writes, layer_count)) {
    if (!write.mixes_positions || write.first_layer < rectangle.first_layer) {
      continue;
    }
    rectangle.Include(rectangle.first_layer, write.first_position);
  }
}

std::vector<WriteExtent> CommonWrites(absl::Span<const WriteExtent> row,
                                      absl::Span<const WriteExtent> other) {
  std::vector<WriteExtent> common;
  PairWrites(
      row, other, [&](const WriteExtent& write) { common.push_back(write); },
      kIgnore, kIgnore);
  return common;
}

std::vector<WriteExtent> WritesBeyond(absl::Span<const WriteExtent> row,
                                      absl::Span<const WriteExtent> other) {
  std::vector<WriteExtent> beyond;
  PairWrites(
      row, other, kIgnore,
      [&](const WriteExtent& write) { beyond.push_back(write); }, kIgnore);
  return beyond;
}

bool SameWrites(absl::Span<const WriteExtent> a,
                absl::Span<const WriteExtent> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), SameEffect);
}

bool AllStatic(absl::Span<const WriteExtent> writes) {
  return std::all_of(
      writes.begin(), writes.end(),
      [](const WriteExtent& write) { return write.is_static(); });
}

absl::Span<const WriteExtent> WritesWithin(absl::Span<const WriteExtent> writes,
                                           int layer_count) {
  size_t count = writes.size();
  while (count > 0 && writes[count - 1].first_layer > layer_count) --count;
  return writes.first(count);
}

}  // namespace phitap
