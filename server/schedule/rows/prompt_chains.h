// Prompts that begin alike, chained so that each token is computed once.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_SCHEDULE_ROWS_PROMPT_CHAINS_H_
#define PHITAP_SERVER_SCHEDULE_ROWS_PROMPT_CHAINS_H_

#include "server/schedule/rows/row_forest.h"

namespace phitap {

// Finds for each prompt of the forest the one with which it has the longest
// beginning in common among those before it, and gives it a top: the draft with
// the writes that all runs of the prompts chained so have in common, which goes
// on from that of the other prompt.
void ChainPrompts(RowForest& forest);

}  // namespace phitap

#endif  // PHITAP_SERVER_SCHEDULE_ROWS_PROMPT_CHAINS_H_
