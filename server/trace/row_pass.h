// The rows of a forward, and which runs have what of them.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_TRACE_ROW_PASS_H_
#define PHITAP_SERVER_TRACE_ROW_PASS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "server/model/forward.h"
#include "server/model/row_states.h"
#include "server/plan/executor.h"
#include "server/spec/hook_point.h"
#include "server/trace/kept_roots.h"
#include "server/trace/run_pass.h"

namespace phitap {

// One row as the model and the tracer see it.
struct RowPass {
  // With the indices of the forward's rows.
  ForwardRow forward;
  // The run whose tokens and writes it has.
  int leader = 0;
  // Indices into the leader's plan, in the order in which they apply.
  std::vector<int> writes;
  // See WaveRow.
  std::vector<int> differing_writes;
  // Runs that have it, and runs that have it or a row below it; ascending.
  std::vector<int> runs;
  std::vector<int> runs_below;
  RootId keep_as = kNoRoot;
  // What `forward` points to.
  std::shared_ptr<RowStates> states;
  std::shared_ptr<const RowStates> parent_states;

  int parent() const { return forward.parent_row; }
  int64_t end_position() const {
    return forward.first_position + static_cast<int64_t>(forward.ids.size());
  }
};

// A run's positions [begin, end) that one row has.
struct RowStretch {
  // −1: in a row of an earlier wave, which shows nothing.
  int row = -1;
  int64_t begin = 0;
  int64_t end = 0;
};

// Rows with something to compute, parents before their children.
class PassRows {
 public:
  // A row of its own for each run of a forward that has no others.
  explicit PassRows(absl::Span<const RunPass> runs);
  // Those of the plan, then rows of their own for the runs that have none; the
  // plan and the passes of its runs outlive this. Throws c10::Error where the
  // plan breaks what executor.h says of it.
  PassRows(const WavePlan& plan, absl::Span<const RunPass> runs,
           const ModelSpec& spec, const KeptRoots& roots);

  absl::Span<const RowPass> rows() const { return rows_; }
  const RowPass& operator[](int row) const { return rows_[row]; }
  int size() const { return static_cast<int>(rows_.size()); }
  // −1 where all of the run's values are those of an earlier wave's row.
  int RowOf(int run) const { return row_of_run_[run]; }

  // Which rows show the value of a hook point at positions (or queries) before
  // `end` of a run, from the last position to the first.
  std::vector<RowStretch> StretchesOf(int run, HookPoint point,
                                      int64_t end) const;

 private:
  // Where a row of the plan has come to: one with nothing to compute is its
  // parent.
  struct Place {
    int row = -1;
    std::shared_ptr<const RowStates> states;
  };

  void AddAlone(int run, const RunPass& pass);
  // Gives the run the row, −1 for one of an earlier wave; false where the row
  // cannot fill the run's cache.
  bool Join(int row, int run, const RunPass& pass);
  Place Add(const WaveRow& planned, const RunPass& leader, const Place& parent);
  void AddBelow();

  std::vector<RowPass> rows_;
  std::vector<int> row_of_run_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_TRACE_ROW_PASS_H_
