// Which of the rows that could be are.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_SCHEDULE_ROWS_SETTLE_ROWS_H_
#define PHITAP_SERVER_SCHEDULE_ROWS_SETTLE_ROWS_H_

#include "server/schedule/rows/row_forest.h"

namespace phitap {

// Leaves out drafts that nobody asked for where they do not pay, lets rows go
// on from others or from kept roots where that leaves less to compute, and
// fills in rectangles and what is asked of each row. The token-layers of all
// rows are never more than those of each run alone.
void SettleRows(RowForest& forest);

}  // namespace phitap

#endif  // PHITAP_SERVER_SCHEDULE_ROWS_SETTLE_ROWS_H_
