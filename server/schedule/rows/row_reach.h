// How far rows go for what is asked of them and of the rows below.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_SCHEDULE_ROWS_ROW_REACH_H_
#define PHITAP_SERVER_SCHEDULE_ROWS_ROW_REACH_H_

#include <cstdint>

#include "server/plan/trace_plan.h"
#include "server/schedule/rows/compared_row.h"

namespace phitap {

// Makes `reach` go as far as `more`, too.
void Extend(Reach& reach, const Reach& more);
// Whether it goes as far already.
bool Covers(const Reach& reach, const Reach& less);

// The values of a row that its parent must have.
enum class Taken {
  // Everything that is asked of the row: its runs may come to read the parent
  // instead.
  kAll,
  // What lies outside of the rectangle, and what its computation begins with.
  kOutside,
};

// What of a row, of which `asked` is asked, is its parent's. Not thread-safe.
struct RowTaking {
  const Reach& asked;
  RowRectangle rectangle;
  int64_t token_count = 0;
  Taken taken = Taken::kOutside;

  // Makes the parent's reach cover it.
  void ExtendParent(Reach& parent) const;
  // How many of the parent's tokens that needs.
  int64_t ParentTokenCount() const;
};

// The part of `asked` that lies in the rectangle.
Reach Within(const Reach& asked, const RowRectangle& rectangle);

// Tokens × layers that are computed for it.
int64_t TokenLayers(const Reach& asked, const RowRectangle& rectangle,
                    int64_t token_count);

}  // namespace phitap

#endif  // PHITAP_SERVER_SCHEDULE_ROWS_ROW_REACH_H_
