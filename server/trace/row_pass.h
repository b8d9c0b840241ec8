// One pass of a run, as a row of a wave.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_TRACE_ROW_PASS_H_
#define PHITAP_SERVER_TRACE_ROW_PASS_H_

#include <cstdint>
#include <vector>

#include "server/model/forward.h"
#include "server/plan/executor.h"
#include "server/trace/edit.h"
#include "server/trace/generation.h"
#include "server/trace/node_values.h"

namespace phitap {

// What the pass computes and what takes part in it.
struct RowPass {
  WaveRun row;
  ForwardRow forward;
  // Of the request, outlives the pass.
  NodeValues* values = nullptr;
  // Null for a run that does not generate, and in a gradient pass.
  Generation* generation = nullptr;
  RunSequence sequence;
  // 0 is the prompt's pass, t that of the t-th generated token.
  int step = 0;
  // Indices into the plan: nodes that are read, writes, captures.
  std::vector<int> reads;
  std::vector<int> writes;
  std::vector<int> captures;

  const PlannedRun& run() const { return row.plan->runs[row.run]; }
  // Of the pass's own token: the last there is.
  int64_t own_position() const {
    return static_cast<int64_t>(sequence.ids.size()) - 1;
  }
};

// The next pass of the row's run.
RowPass NextPass(const WaveRun& row, NodeValues& values);

// A pass of the row's run for a gradient pass of the plan: what the metric and
// the run's writes read, nothing captured; no further than the metric needs.
RowPass RecordedPass(const WaveRun& row, NodeValues& values);

// The index among the tensors of a capture's steps of those that a pass makes;
// −1 where it makes none.
int StepIndexIn(const PlannedCapture& capture, const RowPass& pass);

}  // namespace phitap

#endif  // PHITAP_SERVER_TRACE_ROW_PASS_H_
