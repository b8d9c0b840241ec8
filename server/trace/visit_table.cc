// SPDX-License-Identifier: Apache-2.0
#include "server/trace/visit_table.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "server/plan/captures/reduction.h"

namespace phitap {

VisitTable::VisitTable(const ModelSpec& spec, absl::Span<const RunPass> runs,
                       const PassRows& rows)
    : visits_(kHookCount * (spec.num_layers + 1)),
      capture_counts_(runs.size()) {
  for (int row = 0; row < rows.size(); ++row) {
    const TracePlan& plan = runs[rows[row].leader].plan();
    for (const int write : rows[row].writes) {
      VisitOf(row, plan.writes[write].point).writes.push_back(write);
    }
  }
  for (int run = 0; run < static_cast<int>(runs.size()); ++run) {
    AddWatches(run, runs[run], rows);
    if (runs[run].generation == nullptr) continue;
    VisitOf(rows.RowOf(run), {.hook = Hook::kLogits})
        .choosing_runs.push_back(run);
  }
}

RowVisit& VisitTable::VisitOf(int row, HookPoint point) {
  std::vector<RowVisit>& visits = visits_[IndexOf(point)];
  if (visits.empty() || visits.back().row < row) {
    return visits.emplace_back(RowVisit{.row = row});
  }
  const auto at =
      std::lower_bound(visits.begin(), visits.end(), row,
                       [](const RowVisit& v, int r) { return v.row < r; });
  return at->row == row ? *at : *visits.insert(at, RowVisit{.row = row});
}

int VisitTable::FindVisit(HookPoint point, int row) const {
  const std::vector<RowVisit>& visits = At(point);
  const auto at =
      std::lower_bound(visits.begin(), visits.end(), row,
                       [](const RowVisit& v, int r) { return v.row < r; });
  const bool found = at != visits.end() && at->row == row;
  return found ? static_cast<int>(at - visits.begin()) : -1;
}

void VisitTable::AddWatches(int run, const RunPass& pass,
                            const PassRows& rows) {
  const TracePlan& plan = pass.plan();
  for (const int node : pass.reads) {
    const auto& read = std::get<RunRead>(plan.nodes[node].operation);
    const Watch watch{.run = run, .point = read.point, .node = node};
    Add(PlaceWatch(watch, read.read_at, read.selection, pass, rows),
        read.read_at, read.time);
  }
  for (const int index : pass.captures) {
    const PlannedCapture& capture = plan.captures[index];
    const Watch watch{.run = run,
                      .point = capture.point,
                      .capture = &capture,
                      .first_tensor = capture.first_tensor +
                                      StepIndexIn(capture, pass) *
                                          PartCount(capture.reduction)};
    Add(PlaceWatch(watch, capture.read_at, capture.selection, pass, rows),
        capture.read_at, capture.time);
    ++capture_counts_[run];
  }
}

void VisitTable::Add(std::vector<PlacedWatch> parts, HookPoint read_at,
                     ReadTime time) {
  for (PlacedWatch& part : parts) {
    const Watch& watch = part.watch.watch;
    if (part.row < 0) {
      if (blind_runs_.empty() || blind_runs_.back() != watch.run) {
        blind_runs_.push_back(watch.run);
      }
      continue;
    }
    // What goes into a layer is what the one before it made, its writes
    // included.
    const bool before = watch.point == read_at && time == ReadTime::kBefore;
    RowVisit& visit = VisitOf(part.row, read_at);
    (before ? visit.before : visit.after).push_back(std::move(part.watch));
  }
}

}  // namespace phitap
