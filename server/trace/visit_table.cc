#include "server/trace/visit_table.h"

#include <utility>
#include <variant>

#include "server/plan/captures/reduction.h"
#include "server/trace/select.h"

namespace phitap {
namespace {

// Where a value is read and whether that is before the writes there: what goes
// into a layer is what the one before it made, its writes included.
struct Moment {
  HookPoint read_at;
  bool before = false;
};
Moment MomentOf(HookPoint point, HookPoint read_at, ReadTime time) {
  return {.read_at = read_at,
          .before = point == read_at && time == ReadTime::kBefore};
}

// In a pass after the prompt's a value is its own token's alone.
std::shared_ptr<const ResolvedSelection> SelectionIn(
    const RowPass& pass, Hook hook, const ResolvedSelection& selection) {
  if (pass.step == 0) return {pass.row.plan, &selection};
  auto own = std::make_shared<ResolvedSelection>(selection);
  own->positions.reset();
  if (IsPattern(hook)) own->queries = {pass.own_position()};
  if (SeqDimension(hook) >= 0) own->positions = {pass.own_position()};
  return own;
}

Watch WatchOf(const RowPass& pass, HookPoint point,
              const ResolvedSelection& selection) {
  Watch watch{.point = point,
              .selection = SelectionIn(pass, point.hook, selection)};
  if (IsPattern(point.hook)) {
    watch.pattern = std::make_unique<PatternCapture>(
        point.hook, *watch.selection,
        static_cast<int64_t>(pass.sequence.ids.size()));
  }
  return watch;
}

}  // namespace

VisitTable::VisitTable(const ModelSpec& spec, absl::Span<const RowPass> passes)
    : visits_(kHookCount * (spec.num_layers + 1)),
      capture_counts_(passes.size(), 0) {
  for (size_t row = 0; row < passes.size(); ++row) {
    Add(static_cast<int>(row), passes[row]);
  }
}

RowVisit& VisitTable::VisitOf(int row, HookPoint point) {
  std::vector<RowVisit>& visits = At(point);
  if (visits.empty() || visits.back().row != row) {
    visits.push_back({.row = row});
  }
  return visits.back();
}

void VisitTable::Add(int row, const RowPass& pass) {
  const TracePlan& plan = *pass.row.plan;
  for (const int node : pass.reads) {
    const auto& read = std::get<RunRead>(plan.nodes[node].operation);
    const Moment moment = MomentOf(read.point, read.read_at, read.time);
    Watch watch = WatchOf(pass, read.point, read.selection);
    watch.node = node;
    RowVisit& visit = VisitOf(row, moment.read_at);
    (moment.before ? visit.before : visit.after).push_back(std::move(watch));
  }
  for (const int write : pass.writes) {
    VisitOf(row, plan.writes[write].point).writes.push_back(write);
  }
  for (const int index : pass.captures) {
    const PlannedCapture& capture = plan.captures[index];
    const Moment moment =
        MomentOf(capture.point, capture.read_at, capture.time);
    Watch watch = WatchOf(pass, capture.point, capture.selection);
    watch.capture = &capture;
    watch.first_tensor =
        capture.first_tensor +
        StepIndexIn(capture, pass) * PartCount(capture.reduction);
    RowVisit& visit = VisitOf(row, moment.read_at);
    (moment.before ? visit.before : visit.after).push_back(std::move(watch));
    ++capture_counts_[row];
  }
  if (pass.generation != nullptr) {
    VisitOf(row, {.hook = Hook::kLogits}).chooses_token = true;
  }
}

}  // namespace phitap
