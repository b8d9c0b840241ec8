// What a row would compute under one parent or another.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_SCHEDULE_ROWS_ROW_PLACES_H_
#define PHITAP_SERVER_SCHEDULE_ROWS_ROW_PLACES_H_

#include <cstdint>

#include "server/schedule/rows/row_forest.h"

namespace phitap {

// A row under another of the wave.
struct RowPlace {
  RowRectangle rectangle;
  Taken taken = Taken::kOutside;
  RowDifference::Cause cause = RowDifference::Cause::kNothing;
  int64_t token_layers = 0;

  // Whether the row is the parent's row: no value of it is another.
  bool IsParent(const RowDraft& row, const RowDraft& parent) const {
    return cause == RowDifference::Cause::kNothing && !row.generates &&
           row.token_count == parent.token_count;
  }
};
RowPlace PlaceUnder(const RowForest& forest, const RowDraft& row,
                    const RowDraft& parent);

// A row without a parent in the wave: under the kept root that leaves least to
// compute, or alone.
struct TopPlace {
  RowRectangle rectangle;
  const KeptRoot* root = nullptr;
  int64_t token_layers = 0;
};
TopPlace PlaceAtTop(RowForest& forest, const RowDraft& row);

// Fills in what is asked of a draft from its runs and children, which are
// known, and how many of its tokens somebody asks for.
void GatherAsked(const RowForest& forest, RowDraft& row);

}  // namespace phitap

#endif  // PHITAP_SERVER_SCHEDULE_ROWS_ROW_PLACES_H_
