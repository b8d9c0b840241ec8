// Makes a planned write in a value of a forward.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_TRACE_APPLY_WRITE_H_
#define PHITAP_SERVER_TRACE_APPLY_WRITE_H_

#include "server/model/hooks.h"
#include "server/plan/program.h"
#include "server/trace/edit.h"
#include "server/trace/node_values.h"
#include "server/trace/written_part.h"

namespace phitap {

// Where the writes of a row take their values from.
struct WriteScope {
  // Of the request that the write is planned in.
  NodeValues& values;
  const RunSequence& sequence;
  SameBits same_bits = SameBits::kWrite;
};

// What a row's lines, or a block's queries, have of the write. Returns whether
// anything was written. Throws as NodeValues::Value and Evaluate do.
bool ApplyWrite(const PlannedWrite& write, const WriteScope& scope,
                const TokenLayout::Row& lines, EditedMatrix& matrix);
bool ApplyWrite(const PlannedWrite& write, const WriteScope& scope,
                const PatternBlock& block, EditedPattern& pattern);

}  // namespace phitap

#endif  // PHITAP_SERVER_TRACE_APPLY_WRITE_H_
