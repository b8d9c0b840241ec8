#include "server/plan/program/plan_gradients.h"

#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/plan/captures/capture_labels.h"
#include "server/plan/program/shapes.h"
#include "server/plan/saturating.h"
#include "server/plan/wire_type.h"

namespace phitap {
namespace {

// Adds a tensor that is not of one run: it comes once what it is made of is
// there. Its index.
absl::StatusOr<int> AddTensor(const PlanParts& parts, PlannedTensor tensor,
                              absl::string_view field) {
  TracePlan& plan = parts.plan;
  const int64_t count = static_cast<int64_t>(plan.tensors.size());
  if (count >= parts.context.limits.max_tensors) {
    return InvalidField(
        {.field = std::string(field),
         .problem = absl::StrCat("brings the answer to ", count + 1,
                                 " tensors or more"),
         .valid = absl::StrCat("at most ", parts.context.limits.max_tensors)});
  }
  tensor.run = -1;
  tensor.size_bytes = SaturatingMultiply(SaturatingElements(tensor.shape),
                                         SizeInBytes(tensor.dtype));
  plan.size_bytes = SaturatingAdd(plan.size_bytes, tensor.size_bytes);
  plan.tensors.push_back(std::move(tensor));
  return static_cast<int>(count);
}

std::vector<std::string> DimensionNames(Hook hook) {
  std::vector<std::string> names;
  for (Dimension dimension : EntryOf(hook).dimensions) {
    names.emplace_back(Name(dimension));
  }
  return names;
}

absl::StatusOr<DType> WireTypeOf(const v1::Gradient& gradient,
                                 const std::string& field) {
  if (gradient.dtype() == v1::DATA_TYPE_UNSPECIFIED) return DType::kF32;
  const std::optional<DType> dtype = FromWire(gradient.dtype());
  if (dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16) {
    return *dtype;
  }
  return InvalidField(
      {.field = field,
       .problem = absl::StrCat(v1::DataType_Name(gradient.dtype()),
                               " is no floating-point type"),
       .valid = "DATA_TYPE_F32, DATA_TYPE_F16, DATA_TYPE_BF16"});
}

// Adds one of the request's gradients.
class GradientPlanner {
 public:
  GradientPlanner(const PlanParts& parts, const NodeIndex& nodes, int index)
      : parts_(parts),
        nodes_(nodes),
        gradient_(parts.request.gradients(index)),
        label_(GradientLabel(parts.request, index)),
        field_(absl::StrCat("gradients[", index, "]")) {}

  absl::Status Plan() const {
    ASSIGN_OR_RETURN(const int run, DifferentiatedRun());
    ASSIGN_OR_RETURN(const DType dtype,
                     WireTypeOf(gradient_, absl::StrCat(field_, ".dtype")));
    ASSIGN_OR_RETURN(const int metric, MetricNode(run));
    ASSIGN_OR_RETURN(
        const std::vector<HookPoint> points,
        ParseHookPoints(gradient_.hook_points(), parts_.context.spec,
                        absl::StrCat(field_, ".hook_points")));
    for (HookPoint point : points) {
      RETURN_IF_ERROR(AddPoint(run, metric, point, dtype));
    }
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<int> DifferentiatedRun() const {
    const std::string own = absl::StrCat(field_, ".run");
    if (!gradient_.run().empty()) {
      return FindRun(parts_.runs, gradient_.run(), own);
    }
    if (!gradient_.of().run().empty()) {
      return FindRun(parts_.runs, gradient_.of().run(),
                     absl::StrCat(field_, ".of.run"));
    }
    return InvalidField({.field = own,
                         .problem = "neither it nor of.run names a run",
                         .valid = "the label of the run to differentiate"});
  }

  // Of the run that is differentiated, unless the metric names another.
  absl::StatusOr<int> MetricNode(int run) const {
    const v1::Metric& of = gradient_.of();
    return AddMetric(parts_, nodes_, of, of.run().empty() ? run : -1,
                     absl::StrCat(field_, ".of"));
  }

  absl::Status AddPoint(int run, int metric, HookPoint point,
                        DType dtype) const {
    v1::RunValue value;
    if (gradient_.has_selection()) {
      *value.mutable_selection() = gradient_.selection();
    }
    ASSIGN_OR_RETURN(
        RunRead read,
        ResolveRunValue(parts_, value, {.run = run, .point = point}, field_));
    ASSIGN_OR_RETURN(const int node,
                     AddGradientOf(parts_, metric, std::move(read), field_));
    ASSIGN_OR_RETURN(const int tensor,
                     AddTensor(parts_,
                               {.label = label_,
                                .point = point,
                                .dtype = dtype,
                                .shape = parts_.builder.ShapeOf(node),
                                .dimension_names = DimensionNames(point.hook)},
                               field_));
    parts_.plan.outputs.push_back({.node = node, .tensor = tensor});
    return absl::OkStatus();
  }

  const PlanParts& parts_;
  const NodeIndex& nodes_;
  const v1::Gradient& gradient_;
  const std::string label_;
  const std::string field_;
};

// Adds the tensors of one sweep, whose metrics ExpandSweeps has looked at.
absl::Status PlanSweep(const PlanParts& parts, const NodeIndex& nodes,
                       int index, const SweepGrid& grid) {
  const v1::Sweep& sweep = parts.request.sweeps(index);
  const std::string field = absl::StrCat("sweeps[", index, "].metrics");
  for (int i = 0; i < sweep.metrics_size(); ++i) {
    const v1::Metric& metric = sweep.metrics(i);
    const std::string path = absl::StrCat(field, "[", i, "]");
    RETURN_IF_ERROR(CheckLabel(metric.label(), parts.context.limits,
                               absl::StrCat(path, ".label")));
    ASSIGN_OR_RETURN(const int tensor,
                     AddTensor(parts,
                               {.label = SweepLabel(parts.request, index),
                                .has_point = false,
                                .part = metric.label(),
                                .shape = grid.shape,
                                .dimension_names = grid.dimension_names},
                               path));
    const int64_t cell_count = SaturatingElements(grid.shape);
    for (int64_t cell = 0; cell < cell_count; ++cell) {
      ASSIGN_OR_RETURN(
          const int node,
          AddMetric(parts, nodes, metric,
                    grid.first_run + static_cast<int>(cell), path));
      parts.plan.outputs.push_back(
          {.node = node, .tensor = tensor, .offset = cell});
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status PlanGradients(const PlanParts& parts, const NodeIndex& nodes) {
  const int64_t count = parts.request.gradients_size();
  if (count > parts.context.limits.max_captures) {
    return InvalidField(
        {.field = "gradients",
         .problem = absl::StrCat(count, " gradients"),
         .valid = absl::StrCat("at most ", parts.context.limits.max_captures)});
  }
  for (int i = 0; i < count; ++i) {
    RETURN_IF_ERROR(GradientPlanner(parts, nodes, i).Plan());
  }
  return absl::OkStatus();
}

absl::Status PlanSweepMetrics(const PlanParts& parts, const NodeIndex& nodes,
                              const std::vector<SweepGrid>& grids) {
  for (size_t i = 0; i < grids.size(); ++i) {
    RETURN_IF_ERROR(PlanSweep(parts, nodes, static_cast<int>(i), grids[i]));
  }
  return absl::OkStatus();
}

}  // namespace phitap
