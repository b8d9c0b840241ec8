#include "server/schedule/rows/token_sequence.h"

#include <xxhash.h>

#include <algorithm>

namespace phitap {
namespace {

// The first index from `known` on at which two spans differ.
template <typename T>
int64_t FirstDifference(absl::Span<const T> a, absl::Span<const T> b,
                        int64_t known) {
  const auto size = static_cast<int64_t>(std::min(a.size(), b.size()));
  if (known >= size) return size;
  return std::mismatch(a.begin() + known, a.begin() + size, b.begin() + known)
             .first -
         a.begin();
}

// The first position that only one of them hides; `size` if there is none
// before it.
int64_t FirstHiddenDifference(absl::Span<const int64_t> a,
                              absl::Span<const int64_t> b, int64_t size) {
  const auto [in_a, in_b] =
      std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  const int64_t next_a = in_a == a.end() ? size : *in_a;
  const int64_t next_b = in_b == b.end() ? size : *in_b;
  return std::min({next_a, next_b, size});
}

template <typename T>
uint64_t HashOf(absl::Span<const T> items, uint64_t seed) {
  return XXH3_64bits_withSeed(items.data(), items.size() * sizeof(T), seed);
}

}  // namespace

TokenSequence SequenceOf(const PlannedRun& run) {
  return {.ids = run.ids,
          .position_ids = run.position_ids,
          .hidden_positions = run.hidden_positions};
}

TokenSequence Prefix(TokenSequence sequence, int64_t token_count) {
  sequence.ids = sequence.ids.first(token_count);
  sequence.position_ids = sequence.position_ids.first(token_count);
  return sequence;
}

int64_t CommonPrefix(const TokenSequence& a, const TokenSequence& b,
                     int64_t known) {
  const int64_t same_ids = FirstDifference(a.ids, b.ids, known);
  const int64_t size = FirstDifference(a.position_ids.first(same_ids),
                                       b.position_ids.first(same_ids), known);
  return FirstHiddenDifference(a.hidden_positions, b.hidden_positions, size);
}

TokenSymbol SymbolAt(const TokenSequence& sequence, int64_t position) {
  return {sequence.ids[position], sequence.position_ids[position],
          std::binary_search(sequence.hidden_positions.begin(),
                             sequence.hidden_positions.end(), position)};
}

uint64_t HashOf(const TokenSequence& sequence) {
  const uint64_t ids = HashOf(sequence.ids, 0);
  return HashOf(sequence.hidden_positions, HashOf(sequence.position_ids, ids));
}

}  // namespace phitap
