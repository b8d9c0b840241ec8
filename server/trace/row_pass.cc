// SPDX-License-Identifier: Apache-2.0
#include "server/trace/row_pass.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace phitap {
namespace {

// A row shows the point if it begins in this layer or before.
int LayerOf(HookPoint point) {
  // A row begins right before what shows the layer before its first.
  if (point.hook == Hook::kLayerOutput) return point.layer + 1;
  if (HasLayer(point.hook)) return point.layer;
  return point.hook < Hook::kLayerInput ? 0 : std::numeric_limits<int>::max();
}

// Of the whole run; the row's positions are cut out of it.
ForwardRow ForwardOf(const WaveRow& planned, const RunPass& leader) {
  const int64_t first = planned.first_position;
  const int64_t count = planned.token_count - first;
  ForwardRow forward = leader.ask;
  forward.ids = forward.ids.subspan(first, count);
  forward.position_ids = forward.position_ids.subspan(first, count);
  forward.long_factors = leader.run().sharing.long_factors;
  const auto& hidden = leader.ask.hidden_positions;
  const auto end =
      std::lower_bound(hidden.begin(), hidden.end(), planned.token_count);
  forward.hidden_positions = hidden.first(end - hidden.begin());
  forward.first_position = first;
  forward.first_layer = planned.first_layer;
  forward.cache = nullptr;
  forward.layer_count = planned.reach.layer_count;
  forward.tail_positions = planned.reach.tail_positions;
  forward.norm_positions = planned.reach.norm_positions;
  forward.head_positions = planned.reach.head_positions;
  return forward;
}

void CheckPlanned(const WaveRow& planned, absl::Span<const RunPass> runs,
                  size_t index) {
  TORCH_CHECK(0 <= planned.leader &&
                  planned.leader < static_cast<int>(runs.size()) &&
                  planned.parent < static_cast<int>(index),
              "row ", index, " has leader ", planned.leader, " and parent ",
              planned.parent);
  const RunPass& leader = runs[planned.leader];
  TORCH_CHECK(leader.step == 0 && 0 <= planned.first_position &&
                  planned.first_position <= planned.token_count &&
                  planned.token_count <= leader.token_count(),
              "row ", index, " has positions [", planned.first_position, ", ",
              planned.token_count, ") of a run's ", leader.token_count());
}

}  // namespace

PassRows::PassRows(absl::Span<const RunPass> runs) {
  rows_.reserve(runs.size());
  for (const RunPass& run : runs) {
    AddAlone(static_cast<int>(row_of_run_.size()), run);
  }
  AddBelow();
}

PassRows::PassRows(const WavePlan& plan, absl::Span<const RunPass> runs,
                   const ModelSpec& spec, const KeptRoots& roots) {
  rows_.reserve(plan.rows.size() + runs.size());
  std::vector<Place> places;
  places.reserve(plan.rows.size());
  for (const WaveRow& planned : plan.rows) {
    CheckPlanned(planned, runs, places.size());
    Place parent = planned.parent < 0 ? Place() : places[planned.parent];
    if (planned.parent_root != kNoRoot) {
      parent = {.states = roots.Find(planned.parent_root)};
      TORCH_CHECK(parent.states != nullptr, "root ", planned.parent_root,
                  " is not kept");
    }
    places.push_back(Add(planned, runs[planned.leader], parent));
    if (planned.keep_as != kNoRoot) {
      TORCH_CHECK(places.back().row >= 0, "nothing to keep as root ",
                  planned.keep_as);
      RowPass& kept = rows_[places.back().row];
      kept.keep_as = planned.keep_as;
      kept.states = std::make_shared<RowStates>(spec);
      kept.forward.states = kept.states.get();
    }
  }
  for (size_t run = 0; run < runs.size(); ++run) {
    const int planned = plan.runs[run].row;
    const int row = planned < 0 ? -1 : places.at(planned).row;
    if (planned >= 0 && Join(row, static_cast<int>(run), runs[run])) continue;
    AddAlone(static_cast<int>(run), runs[run]);
  }
  AddBelow();
}

void PassRows::AddAlone(int run, const RunPass& pass) {
  row_of_run_.push_back(size());
  rows_.push_back({.forward = pass.ask,
                   .leader = run,
                   .writes = pass.writes,
                   .runs = {run}});
}

bool PassRows::Join(int row, int run, const RunPass& pass) {
  if (pass.generation != nullptr) {
    if (row < 0 || rows_[row].forward.cache != nullptr) return false;
    rows_[row].forward.cache = pass.ask.cache;
  }
  row_of_run_.push_back(row);
  if (row >= 0) rows_[row].runs.push_back(run);
  return true;
}

PassRows::Place PassRows::Add(const WaveRow& planned, const RunPass& leader,
                              const Place& parent) {
  if (planned.first_position == planned.token_count ||
      planned.first_layer > planned.reach.layer_count) {
    return parent;
  }
  RowPass row{.forward = ForwardOf(planned, leader),
              .leader = planned.leader,
              .writes = planned.writes,
              .differing_writes = planned.differing_writes,
              .parent_states = parent.states};
  row.forward.parent_row = parent.row;
  row.forward.parent_states = parent.states.get();
  rows_.push_back(std::move(row));
  return {.row = size() - 1};
}

void PassRows::AddBelow() {
  for (int run = 0; run < static_cast<int>(row_of_run_.size()); ++run) {
    for (int row = row_of_run_[run]; row >= 0; row = rows_[row].parent()) {
      rows_[row].runs_below.push_back(run);
    }
  }
}

std::vector<RowStretch> PassRows::StretchesOf(int run, HookPoint point,
                                              int64_t end) const {
  std::vector<RowStretch> stretches;
  const int layer = LayerOf(point);
  for (int at = row_of_run_[run]; at >= 0 && end > 0; at = rows_[at].parent()) {
    const RowPass& row = rows_[at];
    if (layer < row.forward.first_layer) continue;
    const bool has_parent = row.parent() >= 0 || row.parent_states != nullptr;
    const int64_t begin = has_parent ? row.forward.first_position : 0;
    if (begin >= end) continue;
    stretches.push_back({.row = at, .begin = begin, .end = end});
    end = begin;
  }
  if (end > 0) stretches.push_back({.begin = 0, .end = end});
  return stretches;
}

}  // namespace phitap
