// The rows of a wave as its executor takes them.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_SCHEDULE_ROWS_LAY_OUT_ROWS_H_
#define PHITAP_SERVER_SCHEDULE_ROWS_LAY_OUT_ROWS_H_

#include "server/plan/executor.h"
#include "server/schedule/rows/root_table.h"
#include "server/schedule/rows/row_forest.h"

namespace phitap {

// Adds the rows of a settled forest to the wave, parents before children, and
// tells its runs their rows. Roots that rows go on from are used from here on;
// those without parent are kept where that is worth it.
void LayOutRows(const RowForest& forest, const SharingKey& key,
                RootTable& roots, WavePlan& wave);

}  // namespace phitap

#endif  // PHITAP_SERVER_SCHEDULE_ROWS_LAY_OUT_ROWS_H_
