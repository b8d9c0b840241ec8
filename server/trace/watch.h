// A part of a run's value that a node or a capture takes.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_TRACE_WATCH_H_
#define PHITAP_SERVER_TRACE_WATCH_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "server/model/hooks.h"
#include "server/plan/trace_plan.h"
#include "server/spec/hook_point.h"
#include "server/trace/gathered_value.h"
#include "server/trace/pattern_capture.h"
#include "server/trace/row_pass.h"
#include "server/trace/run_pass.h"

namespace phitap {

// What is watched, and which node or capture it is for.
struct Watch {
  // Index of the run's pass.
  int run = 0;
  HookPoint point;
  // One of the two.
  int node = -1;
  const PlannedCapture* capture = nullptr;
  // Of the capture in this pass.
  int first_tensor = -1;
};

// What one row shows of it: the positions (or queries) [begin, end) of the run.
struct RowWatch {
  Watch watch;
  // Whose positions, where it names any, are those that the row shows.
  std::shared_ptr<const ResolvedSelection> selection;
  int64_t begin = 0;
  int64_t end = 0;
  // Shared with the other rows that show some of it. Scores and probabilities
  // have the pattern; other values the whole, if several rows show them, and
  // where in it this row's positions stand.
  std::shared_ptr<PatternCapture> pattern;
  std::shared_ptr<GatheredValue> whole;
  std::vector<int64_t> places;

  bool Wants(const PatternBlock& block) const;
  // Takes what the block has of it. Returns the pattern once it is complete,
  // else an undefined tensor.
  at::Tensor Take(const PatternBlock& block, const at::Tensor& value) const;
  // Takes the lines of a token-major value, likewise.
  at::Tensor Take(const TokenLayout::Row& lines, const at::Tensor& value) const;
};

// Of `selection` in this pass, by rows that show it. The first is of row −1
// where a row of an earlier wave would have to show some of it.
struct PlacedWatch {
  int row = -1;
  RowWatch watch;
};
std::vector<PlacedWatch> PlaceWatch(const Watch& watch, HookPoint read_at,
                                    const ResolvedSelection& selection,
                                    const RunPass& pass, const PassRows& rows);

}  // namespace phitap

#endif  // PHITAP_SERVER_TRACE_WATCH_H_
