#include "server/plan/sweeps/expand_sweeps.h"

#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/plan/saturating.h"
#include "server/plan/sweeps/sweep_axis.h"
#include "server/spec/quote.h"

namespace phitap {
namespace {

std::string SweepField(int index) {
  return absl::StrCat("sweeps[", index, "]");
}

absl::Status NoneGiven(const std::string& field, absl::string_view what) {
  return InvalidField({.field = field,
                       .problem = "none given",
                       .valid = absl::StrCat("at least one ", what)});
}

absl::Status CheckMetrics(const v1::Sweep& sweep, const std::string& field) {
  if (sweep.metrics().empty()) return NoneGiven(field + ".metrics", "metric");
  absl::flat_hash_set<std::string> labels;
  for (int i = 0; i < sweep.metrics_size(); ++i) {
    const v1::Metric& metric = sweep.metrics(i);
    const std::string path = absl::StrCat(field, ".metrics[", i, "]");
    if (!labels.insert(metric.label()).second) {
      return InvalidField(
          {.field = path + ".label",
           .problem = absl::StrCat(Quoted(metric.label()),
                                   " is the label of another metric"),
           .valid = "a label of its own for each of the sweep's metrics"});
    }
    if (!metric.run().empty()) {
      return InvalidField({.field = path + ".run",
                           .problem = absl::StrCat("is ", Quoted(metric.run())),
                           .valid = "empty in a sweep: each cell's own run"});
    }
    if (metric.has_node()) {
      return InvalidField({.field = path + ".node",
                           .problem = "a node has no value of each cell",
                           .valid = "another kind of metric"});
    }
  }
  return absl::OkStatus();
}

absl::Status CheckAxisKinds(const v1::Sweep& sweep, const std::string& field) {
  if (sweep.axes().empty()) return NoneGiven(field + ".axes", "axis");
  absl::flat_hash_set<int> kinds;
  for (int i = 0; i < sweep.axes_size(); ++i) {
    if (kinds.insert(sweep.axes(i).axis_case()).second) continue;
    return InvalidField({.field = absl::StrCat(field, ".axes[", i, "]"),
                         .problem = "is of the same kind as one before it",
                         .valid = "each kind at most once"});
  }
  return absl::OkStatus();
}

// Writes out the sweeps of one request.
class SweepExpander {
 public:
  SweepExpander(const v1::TraceRequest& request, const PlanContext& context,
                const RunIndex& runs, TracePlan& plan)
      : request_(request), context_(context), runs_(runs), plan_(plan) {}

  absl::StatusOr<ExpandedSweeps> ExpandAll() {
    for (const PlannedRun& run : plan_.runs) CountTokens(run);
    for (int i = 0; i < request_.sweeps_size(); ++i) {
      RETURN_IF_ERROR(Expand(i));
    }
    return std::move(expanded_);
  }

 private:
  void CountTokens(const PlannedRun& run) {
    token_count_ += static_cast<int64_t>(run.ids.size());
  }

  absl::Status Expand(int index) {
    const v1::Sweep& sweep = request_.sweeps(index);
    const std::string field = SweepField(index);
    RETURN_IF_ERROR(
        CheckLabel(sweep.label(), context_.limits, field + ".label"));
    if (sweep.interventions().empty()) {
      return NoneGiven(field + ".interventions", "intervention");
    }
    RETURN_IF_ERROR(CheckAxisKinds(sweep, field));
    RETURN_IF_ERROR(CheckMetrics(sweep, field));
    ASSIGN_OR_RETURN(const int base,
                     FindRun(runs_, sweep.run(), field + ".run"));
    ASSIGN_OR_RETURN(const std::vector<SweepAxis> axes,
                     ResolveAxes(sweep, field, plan_.runs[base]));
    return AddCells(index, base, axes);
  }

  absl::StatusOr<std::vector<SweepAxis>> ResolveAxes(
      const v1::Sweep& sweep, const std::string& field,
      const PlannedRun& base_run) const {
    SweepParts parts = {.sweep = sweep,
                        .field = field,
                        .spec = context_.spec,
                        .base_run = base_run};
    for (int i = 0; i < sweep.interventions_size(); ++i) {
      ASSIGN_OR_RETURN(
          std::vector<HookPoint> points,
          ParseHookPoints(
              sweep.interventions(i).hook_points(), context_.spec,
              absl::StrCat(field, ".interventions[", i, "].hook_points")));
      parts.points.push_back(std::move(points));
    }
    std::vector<SweepAxis> axes;
    for (int i = 0; i < sweep.axes_size(); ++i) {
      ASSIGN_OR_RETURN(SweepAxis axis, SweepAxis::Create(parts, i));
      axes.push_back(std::move(axis));
    }
    return axes;
  }

  absl::Status AddCells(int index, int base,
                        const std::vector<SweepAxis>& axes) {
    SweepGrid grid = {.first_run = static_cast<int>(plan_.runs.size())};
    int64_t count = 1;
    for (const SweepAxis& axis : axes) {
      grid.dimension_names.push_back(axis.name());
      grid.shape.push_back(axis.size());
      count = SaturatingMultiply(count, axis.size());
    }
    RETURN_IF_ERROR(CheckCounts(index, base, count));
    std::vector<int64_t> place(axes.size());
    for (int64_t cell = 0; cell < count; ++cell) {
      int64_t rest = cell;
      for (size_t i = axes.size(); i-- > 0; rest /= grid.shape[i]) {
        place[i] = rest % grid.shape[i];
      }
      RETURN_IF_ERROR(AddCell(index, base, axes, place));
    }
    expanded_.grids.push_back(std::move(grid));
    return absl::OkStatus();
  }

  absl::Status CheckCounts(int index, int base, int64_t count) {
    const Limits& limits = context_.limits;
    cell_count_ = SaturatingAdd(cell_count_, count);
    if (cell_count_ > limits.max_sweep_cells) {
      return InvalidField(
          {.field = SweepField(index) + ".axes",
           .problem =
               absl::StrCat("bring the request to ", cell_count_, " cells"),
           .valid = absl::StrCat("at most ", limits.max_sweep_cells)},
          absl::StatusCode::kResourceExhausted);
    }
    token_count_ = SaturatingAdd(
        token_count_,
        SaturatingMultiply(count,
                           static_cast<int64_t>(plan_.runs[base].ids.size())));
    if (token_count_ <= limits.max_request_tokens) return absl::OkStatus();
    return InvalidField(
        {.field = SweepField(index) + ".axes",
         .problem = absl::StrCat("bring the request's runs to ", token_count_,
                                 " tokens"),
         .valid = absl::StrCat("at most ", limits.max_request_tokens)},
        absl::StatusCode::kResourceExhausted);
  }

  absl::Status AddCell(int index, int base, const std::vector<SweepAxis>& axes,
                       const std::vector<int64_t>& place) {
    PlannedRun run = plan_.runs[base];
    run.label = absl::StrCat(SweepLabel(request_, index), "[",
                             absl::StrJoin(place, ", "), "]");
    run.generation.reset();
    run.sweep = index;
    if (runs_.contains(run.label)) {
      return InvalidField({.field = SweepField(index) + ".label",
                           .problem = absl::StrCat(
                               "its cell ", Quoted(run.label),
                               " has the label of one of the request's runs"),
                           .valid = "another label"});
    }
    plan_.runs.push_back(std::move(run));
    SweepCell cell = {.sweep = index, .base_run = base};
    for (size_t i = 0; i < axes.size(); ++i) axes[i].Apply(place[i], cell);
    expanded_.cells.push_back(std::move(cell));
    return absl::OkStatus();
  }

  const v1::TraceRequest& request_;
  const PlanContext& context_;
  const RunIndex& runs_;
  TracePlan& plan_;
  ExpandedSweeps expanded_;
  int64_t cell_count_ = 0;
  int64_t token_count_ = 0;
};

}  // namespace

std::string SweepLabel(const v1::TraceRequest& request, int index) {
  const std::string& label = request.sweeps(index).label();
  return label.empty() ? absl::StrCat("sweep", index) : label;
}

absl::StatusOr<ExpandedSweeps> ExpandSweeps(const v1::TraceRequest& request,
                                            const PlanContext& context,
                                            const RunIndex& runs,
                                            TracePlan& plan) {
  return SweepExpander(request, context, runs, plan).ExpandAll();
}

}  // namespace phitap
