// One pass of a run: its prompt's, a generated token's or a gradient's.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_TRACE_RUN_PASS_H_
#define PHITAP_SERVER_TRACE_RUN_PASS_H_

#include <cstdint>
#include <vector>

#include "server/model/forward.h"
#include "server/plan/executor.h"
#include "server/trace/edit.h"
#include "server/trace/generation.h"
#include "server/trace/node_values.h"

namespace phitap {

// What the pass asks of the model and what takes part in it.
struct RunPass {
  WaveRun wave_run;
  // What the run needs computed, all of it its own.
  ForwardRow ask;
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

  const TracePlan& plan() const { return *wave_run.plan; }
  const PlannedRun& run() const { return plan().runs[wave_run.run]; }
  int64_t token_count() const {
    return static_cast<int64_t>(sequence.ids.size());
  }
  // Of the pass's own token: the last there is.
  int64_t own_position() const { return token_count() - 1; }
};

// The next pass of the run.
RunPass NextPass(const WaveRun& run, NodeValues& values);

// A pass of the run for a gradient pass of the plan: what the metric and the
// run's writes read, nothing captured; no further than the metric needs.
RunPass RecordedPass(const WaveRun& run, NodeValues& values);

// The index among the tensors of a capture's steps of those that a pass makes;
// −1 where it makes none.
int StepIndexIn(const PlannedCapture& capture, const RunPass& pass);

}  // namespace phitap

#endif  // PHITAP_SERVER_TRACE_RUN_PASS_H_
