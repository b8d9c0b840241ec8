// A prompt as attention and embeddings see it, and how far two are alike.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_SCHEDULE_ROWS_TOKEN_SEQUENCE_H_
#define PHITAP_SERVER_SCHEDULE_ROWS_TOKEN_SEQUENCE_H_

#include <cstdint>
#include <tuple>

#include "absl/types/span.h"
#include "server/plan/trace_plan.h"

namespace phitap {

// A view.
struct TokenSequence {
  absl::Span<const int32_t> ids;
  // One a token.
  absl::Span<const int64_t> position_ids;
  // Ascending; those past the last token count for nothing.
  absl::Span<const int64_t> hidden_positions;

  int64_t size() const { return static_cast<int64_t>(ids.size()); }
};

TokenSequence SequenceOf(const PlannedRun& run);
// Its first `token_count` tokens.
TokenSequence Prefix(TokenSequence sequence, int64_t token_count);

// How many positions from the first on have the same id, position id and
// hidden flag in both. At least `known` are known to.
int64_t CommonPrefix(const TokenSequence& a, const TokenSequence& b,
                     int64_t known = 0);

// What stands at a position: id, position id, hidden flag.
using TokenSymbol = std::tuple<int32_t, int64_t, bool>;
TokenSymbol SymbolAt(const TokenSequence& sequence, int64_t position);

uint64_t HashOf(const TokenSequence& sequence);

}  // namespace phitap

#endif  // PHITAP_SERVER_SCHEDULE_ROWS_TOKEN_SEQUENCE_H_
