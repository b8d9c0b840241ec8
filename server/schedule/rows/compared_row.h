// Where the values of two rows part.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_SCHEDULE_ROWS_COMPARED_ROW_H_
#define PHITAP_SERVER_SCHEDULE_ROWS_COMPARED_ROW_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "server/plan/trace_plan.h"
#include "server/schedule/rows/token_sequence.h"

namespace phitap {

// All that decides a row's values. A view.
struct ComparedRow {
  TokenSequence sequence;
  // In forward order.
  absl::Span<const WriteExtent> writes;
};

// [first_layer, …) × [first_position, …): see WaveRow.
struct RowRectangle {
  int first_layer = 0;
  int64_t first_position = 0;

  bool is_everything() const { return first_layer == 0 && first_position == 0; }
  // Makes it large enough to hold that corner.
  void Include(int layer, int64_t position);
  friend bool operator==(const RowRectangle&, const RowRectangle&) = default;
};

struct RowDifference {
  enum class Cause {
    kNothing,
    // Writes of the row that the parent does not have.
    kOwnWrites,
    // Tokens, or writes of the parent as well.
    kOther,
  };
  Cause cause = Cause::kNothing;
  // The smallest that holds what differs; of nothing, it begins behind the last
  // layer and position.
  RowRectangle rectangle;
};

// What differs in the first `layer_count` layers of `row` from `parent`, whose
// first `common_prefix` positions (see CommonPrefix) have the same tokens.
RowDifference DifferenceOf(const ComparedRow& row, int layer_count,
                           const ComparedRow& parent, int64_t common_prefix);

// A write that mixes positions stands in the rectangle with all of its
// positions or none: makes the rectangle large enough for that.
void IncludeMixed(const ComparedRow& row, int layer_count,
                  RowRectangle& rectangle);

// Writes that both have, in an order in which both apply them, as `row` has
// them: what is left of either differs. Dynamic writes are like no other.
std::vector<WriteExtent> CommonWrites(absl::Span<const WriteExtent> row,
                                      absl::Span<const WriteExtent> other);
// Those of `row` that are not among them.
std::vector<WriteExtent> WritesBeyond(absl::Span<const WriteExtent> row,
                                      absl::Span<const WriteExtent> other);
bool SameWrites(absl::Span<const WriteExtent> a,
                absl::Span<const WriteExtent> b);
bool AllStatic(absl::Span<const WriteExtent> writes);
// Those that are felt in the first `layer_count` layers (with final norm and
// head, where these are all there are).
absl::Span<const WriteExtent> WritesWithin(absl::Span<const WriteExtent> writes,
                                           int layer_count);

}  // namespace phitap

#endif  // PHITAP_SERVER_SCHEDULE_ROWS_COMPARED_ROW_H_
