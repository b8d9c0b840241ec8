// Runs of one prompt that have some of their writes in common.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_SCHEDULE_ROWS_WRITE_BASES_H_
#define PHITAP_SERVER_SCHEDULE_ROWS_WRITE_BASES_H_

#include "server/schedule/rows/row_forest.h"

namespace phitap {

// Puts all drafts of each prompt under its top; those that have writes in
// common beyond the top's under a draft with these, and so on.
void GrowByWrites(RowForest& forest);

}  // namespace phitap

#endif  // PHITAP_SERVER_SCHEDULE_ROWS_WRITE_BASES_H_
