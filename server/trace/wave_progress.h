// Which runs of a forward still count, and so which of its rows are needed.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_TRACE_WAVE_PROGRESS_H_
#define PHITAP_SERVER_TRACE_WAVE_PROGRESS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "server/model/hooks.h"
#include "server/trace/row_pass.h"
#include "server/trace/run_pass.h"

namespace phitap {

// A row goes on while a run needs it or a row below it. A row whose differing
// writes have changed no bit gives way to its parent once none is to come: from
// the next layer on its runs' values are the parent's. Not thread-safe; runs
// and rows outlive it.
class WaveProgress {
 public:
  WaveProgress(absl::Span<const RunPass> runs, const PassRows& rows);

  // Why the run failed, if it did: CANCELLED where nobody waits for it.
  const absl::Status& status(int run) const { return statuses_[run]; }
  void FailRun(int run, const absl::Status& status);
  // A write of the row cannot be made: the runs that have it fail, and those
  // below it, which take values from it. Where those are several, each may have
  // failed for another's sake, and must run again without the others.
  void FailRow(int row, const absl::Status& status);
  bool MustRunAgain(int run) const { return again_[run]; }

  bool Needed(int row) const;
  // Whether it matters if a write of the row changes a bit.
  bool MayGiveWay(int row) const { return may_give_way_[row]; }
  // A differing write has changed one.
  void HasChanged(int row) { may_give_way_[row] = false; }
  bool HasGivenWay(int row) const { return given_way_[row]; }
  // Rows whose runs have this one's values now.
  absl::Span<const int> GaveWayTo(int row) const { return gave_way_to_[row]; }
  // Once the forward has come to its end: whether all of the row was computed
  // as its writes have it.
  bool EndedWell(int row) const {
    return begun_[row] && !failed_[row] && !dropped_[row];
  }

  // See Hooks::AfterLayer.
  std::vector<int> AfterLayer(int layer, const TokenLayout& layout);
  // Layers that were no row's of this forward are done, too.
  void AfterForward();

 private:
  // The layer whose end is the first after all differing writes; past the last
  // one where there is no such layer.
  static int LastDifferingLayer(const RowPass& row, const RunPass& leader);
  // Whether something that comes after the layer is waited for by runs that
  // have the row.
  bool NeedsMore(int row, int layer) const;
  // Whether the row computes anything after the layer.
  bool GoesOn(int row, int layer) const;
  // The run that the row's tokens count for.
  int CountedFor(const RowPass& row, int layer) const;
  void CountLayer(int layer, const TokenLayout& layout);
  void EndCancelled();
  // The first position that runs of the row and below it ask for.
  int64_t FirstAsked(int row) const;
  void GiveWay(int row, int layer);
  // Whether all that the row's runs will read can be had from its parent.
  bool ParentServes(const RowPass& row) const;

  absl::Span<const RunPass> runs_;
  const PassRows& rows_;
  std::vector<absl::Status> statuses_;
  std::vector<bool> again_;
  // Runs whose layers are counted: until the end of the layer that they fail
  // in.
  std::vector<bool> counted_;
  std::vector<int> layers_done_;
  // Rows with a write that could not be made.
  std::vector<bool> failed_;
  std::vector<bool> dropped_;
  // Seen in the forward.
  std::vector<bool> begun_;
  std::vector<bool> may_give_way_;
  std::vector<int> last_differing_layer_;
  std::vector<bool> given_way_;
  std::vector<std::vector<int>> gave_way_to_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_TRACE_WAVE_PROGRESS_H_
