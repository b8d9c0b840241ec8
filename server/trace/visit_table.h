// What a forward does at each hook point.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_TRACE_VISIT_TABLE_H_
#define PHITAP_SERVER_TRACE_VISIT_TABLE_H_

#include <cstddef>
#include <vector>

#include "absl/types/span.h"
#include "server/plan/trace_plan.h"
#include "server/spec/hook_point.h"
#include "server/spec/model_spec.h"
#include "server/trace/row_pass.h"
#include "server/trace/run_pass.h"
#include "server/trace/watch.h"

namespace phitap {

// What one row does at one hook point.
struct RowVisit {
  int row = 0;
  std::vector<RowWatch> before;
  // Indices into the plan of the row's leader, in the order in which they
  // apply.
  std::vector<int> writes;
  std::vector<RowWatch> after;
  // Runs whose next token the logits choose.
  std::vector<int> choosing_runs;
};

// Made at a cost that depends on the passes alone, not on the rest of their
// plans. Thread-compatible.
class VisitTable {
 public:
  VisitTable(const ModelSpec& spec, absl::Span<const RunPass> runs,
             const PassRows& rows);

  bool Wants(HookPoint point) const { return !visits_[IndexOf(point)].empty(); }
  // By row, ascending.
  const std::vector<RowVisit>& At(HookPoint point) const {
    return visits_[IndexOf(point)];
  }
  // Index in At(point) of the row's visit; −1 where it has none.
  int FindVisit(HookPoint point, int row) const;
  // How many captures a run makes.
  int capture_count(int run) const { return capture_counts_[run]; }
  // Runs that watch what a row of an earlier wave would have to show;
  // ascending.
  const std::vector<int>& blind_runs() const { return blind_runs_; }

 private:
  static size_t IndexOf(HookPoint point) {
    return static_cast<size_t>(point.layer + 1) * kHookCount +
           static_cast<size_t>(point.hook);
  }
  void AddWatches(int run, const RunPass& pass, const PassRows& rows);
  void Add(std::vector<PlacedWatch> parts, HookPoint read_at, ReadTime time);
  RowVisit& VisitOf(int row, HookPoint point);

  std::vector<std::vector<RowVisit>> visits_;
  std::vector<int> capture_counts_;
  std::vector<int> blind_runs_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_TRACE_VISIT_TABLE_H_
