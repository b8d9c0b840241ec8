// SPDX-License-Identifier: Apache-2.0
#include "server/trace/wave_progress.h"

#include <algorithm>
#include <limits>

namespace phitap {

WaveProgress::WaveProgress(absl::Span<const RunPass> runs, const PassRows& rows)
    : runs_(runs),
      rows_(rows),
      statuses_(runs.size()),
      again_(runs.size()),
      counted_(runs.size(), true),
      layers_done_(runs.size()),
      failed_(rows.size()),
      dropped_(rows.size()),
      begun_(rows.size()),
      may_give_way_(rows.size()),
      last_differing_layer_(rows.size()),
      given_way_(rows.size()),
      gave_way_to_(rows.size()) {
  for (int row = 0; row < rows.size(); ++row) {
    may_give_way_[row] =
        !rows[row].differing_writes.empty() && ParentServes(rows[row]);
    last_differing_layer_[row] =
        LastDifferingLayer(rows[row], runs[rows[row].leader]);
  }
}

int WaveProgress::LastDifferingLayer(const RowPass& row,
                                     const RunPass& leader) {
  int last = -1;
  for (const int write : row.differing_writes) {
    const HookPoint point = leader.plan().writes[write].point;
    // Final norm and head come after every layer.
    last = std::max(last, point.hook > Hook::kLayerOutput
                              ? std::numeric_limits<int>::max()
                              : point.layer);
  }
  return last;
}

bool WaveProgress::ParentServes(const RowPass& row) const {
  if (row.parent() < 0 || row.forward.cache != nullptr) return false;
  const bool same_end =
      rows_[row.parent()].end_position() == row.end_position();
  // The forward shows next_token_probs at the last position of a row alone.
  return same_end ||
         std::none_of(row.runs.begin(), row.runs.end(), [&](int run) {
           return runs_[run].run().sharing.owns_last_position;
         });
}

void WaveProgress::FailRun(int run, const absl::Status& status) {
  if (statuses_[run].ok()) statuses_[run] = status;
}

void WaveProgress::FailRow(int row, const absl::Status& status) {
  failed_[row] = true;
  const std::vector<int>& failed = rows_[row].runs_below;
  for (const int run : failed) {
    if (!statuses_[run].ok()) continue;
    statuses_[run] = status;
    again_[run] = failed.size() > 1;
  }
}

bool WaveProgress::Needed(int row) const {
  const std::vector<int>& below = rows_[row].runs_below;
  return std::any_of(below.begin(), below.end(),
                     [&](int run) { return statuses_[run].ok(); });
}

bool WaveProgress::NeedsMore(int row, int layer) const {
  const RowPass& pass = rows_[row];
  // What is to be kept is computed for later waves.
  if (pass.keep_as != kNoRoot && Needed(row)) return true;
  return std::any_of(pass.runs.begin(), pass.runs.end(), [&](int run) {
    const ForwardRow& ask = runs_[run].ask;
    return statuses_[run].ok() &&
           (!begun_[row] || layer + 1 < ask.layer_count ||
            !ask.norm_positions.empty());
  });
}

bool WaveProgress::GoesOn(int row, int layer) const {
  const ForwardRow& forward = rows_[row].forward;
  return layer + 1 < forward.layer_count || !forward.norm_positions.empty();
}

int WaveProgress::CountedFor(const RowPass& row, int layer) const {
  const auto counts = [&](int run) {
    return counted_[run] && layer < runs_[run].ask.layer_count;
  };
  if (counts(row.leader)) return row.leader;
  const auto other =
      std::find_if(row.runs_below.begin(), row.runs_below.end(), counts);
  return other == row.runs_below.end() ? row.leader : *other;
}

void WaveProgress::CountLayer(int layer, const TokenLayout& layout) {
  std::vector<int64_t> tokens(runs_.size());
  std::vector<bool> under_way(runs_.size());
  for (const TokenLayout::Row& lines : layout.rows) {
    const RowPass& row = rows_[lines.row];
    begun_[lines.row] = true;
    for (const int run : row.runs_below) under_way[run] = true;
    if (layer < row.forward.first_layer) continue;
    tokens[CountedFor(row, layer)] +=
        static_cast<int64_t>(lines.positions.size());
  }
  for (size_t run = 0; run < runs_.size(); ++run) {
    if (!counted_[run] || !under_way[run]) continue;
    const RunPass& pass = runs_[run];
    const int end = std::min(layer + 1, pass.ask.layer_count);
    for (int& done = layers_done_[run]; done < end; ++done) {
      pass.wave_run.sink->LayerDone(pass.wave_run.run,
                                    done == layer ? tokens[run] : 0);
    }
  }
}

void WaveProgress::EndCancelled() {
  for (size_t run = 0; run < runs_.size(); ++run) {
    const WaveRun& wave_run = runs_[run].wave_run;
    if (statuses_[run].ok() && wave_run.sink->Cancelled(wave_run.run)) {
      statuses_[run] =
          absl::CancelledError("nobody waits for the run any more");
    }
    if (!statuses_[run].ok()) counted_[run] = false;
  }
}

std::vector<int> WaveProgress::AfterLayer(int layer,
                                          const TokenLayout& layout) {
  CountLayer(layer, layout);
  EndCancelled();
  std::vector<bool> needed(rows_.size());
  std::vector<bool> has_children(rows_.size());
  std::vector<int> dropped;
  // Children first.
  for (int row = rows_.size() - 1; row >= 0; --row) {
    if (NeedsMore(row, layer)) needed[row] = true;
    const int parent = rows_[row].parent();
    if (parent >= 0 && needed[row]) needed[parent] = true;
    if (dropped_[row]) continue;
    if (needed[row] && !has_children[row]) GiveWay(row, layer);
    if (needed[row] && !given_way_[row]) {
      if (parent >= 0) has_children[parent] = true;
    } else if (GoesOn(row, layer)) {
      dropped_[row] = true;
      dropped.push_back(row);
    }
  }
  return dropped;
}

int64_t WaveProgress::FirstAsked(int row) const {
  int64_t first = rows_[row].end_position();
  for (const int run : rows_[row].runs_below) {
    first = std::min(first, runs_[run].run().sharing.first_asked_position);
  }
  return first;
}

void WaveProgress::GiveWay(int row, int layer) {
  if (!may_give_way_[row] || layer < last_differing_layer_[row]) return;
  const int parent = rows_[row].parent();
  // A parent that begins later, or further on, shows less than the row did: its
  // other values are a third row's. That matters where the runs ask for them.
  const int64_t first_shown =
      std::max(rows_[row].forward.first_position, FirstAsked(row));
  if (!begun_[parent] || rows_[parent].forward.first_position > first_shown) {
    return;
  }
  given_way_[row] = true;
  std::vector<int>& others = gave_way_to_[parent];
  others.push_back(row);
  others.insert(others.end(), gave_way_to_[row].begin(),
                gave_way_to_[row].end());
  gave_way_to_[row].clear();
}

void WaveProgress::AfterForward() {
  for (size_t run = 0; run < runs_.size(); ++run) {
    if (!counted_[run]) continue;
    const RunPass& pass = runs_[run];
    while (layers_done_[run] < pass.ask.layer_count) {
      pass.wave_run.sink->LayerDone(pass.wave_run.run, 0);
      ++layers_done_[run];
    }
  }
}

}  // namespace phitap
