#include "server/plan/program/gradient_nodes.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/plan/order/forward_order.h"
#include "server/plan/program/node_walk.h"
#include "server/plan/program/shapes.h"
#include "server/spec/quote.h"

namespace phitap {
namespace {

absl::Status Refuse(absl::string_view field, std::string problem,
                    std::string valid) {
  return InvalidField({.field = std::string(field),
                       .problem = std::move(problem),
                       .valid = std::move(valid)});
}

absl::Status CheckMetric(const PlanParts& parts, int metric,
                         absl::string_view field) {
  const Shape& shape = parts.builder.ShapeOf(metric);
  if (SaturatingElements(shape) == 1) return absl::OkStatus();
  return Refuse(field,
                absl::StrCat("the gradient of a value ", ShapeText(shape)),
                "a value of one element");
}

// The metric must read something of the run that comes no earlier than the
// point: else every gradient is 0.
absl::Status CheckDependence(const PlanParts& parts, int metric,
                             const RunRead& read, absl::string_view field) {
  const ModelSpec& spec = parts.context.spec;
  int64_t latest = -1;
  for (int node : NodesBelow(parts.plan, metric)) {
    const auto* counted =
        std::get_if<RunRead>(&parts.plan.nodes[node].operation);
    if (counted == nullptr || counted->run != read.run) continue;
    latest = std::max(latest, ForwardRank(counted->point, spec));
  }
  const std::string label = Quoted(parts.plan.runs[read.run].label);
  if (latest < 0) {
    return Refuse(field,
                  absl::StrCat("the metric does not depend on run ", label,
                               ", which is differentiated"),
                  "a metric of the run's own values");
  }
  if (latest >= ForwardRank(read.point, spec)) return absl::OkStatus();
  return Refuse(field,
                absl::StrCat("all that the metric reads of run ", label,
                             " comes before ", FullName(read.point)),
                "an earlier hook point");
}

absl::Status CheckPoint(const PlanParts& parts, HookPoint point,
                        absl::string_view field) {
  if (point.hook == Hook::kRotaryCos || point.hook == Hook::kRotarySin) {
    return Refuse(field, absl::StrCat("no gradient reaches ", FullName(point)),
                  "activations");
  }
  const bool is_pattern = point.hook == Hook::kAttentionScores ||
                          point.hook == Hook::kAttentionProbabilities;
  if (!is_pattern) return absl::OkStatus();
  if (parts.request.options().attention() == v1::ATTENTION_SDPA) {
    return Refuse("options.attention",
                  absl::StrCat("ATTENTION_SDPA, but ", field,
                               " is with respect to ", FullName(point)),
                  "ATTENTION_EAGER or unset");
  }
  parts.plan.attention = Attention::kEager;
  return absl::OkStatus();
}

GradientPass& PassOf(TracePlan& plan, int run, int metric) {
  for (GradientPass& pass : plan.gradient_passes) {
    if (pass.run == run && pass.metric == metric) return pass;
  }
  plan.gradient_passes.push_back({.run = run, .metric = metric});
  return plan.gradient_passes.back();
}

}  // namespace

absl::StatusOr<int> AddGradientOf(const PlanParts& parts, int metric,
                                  RunRead with_respect_to,
                                  absl::string_view field) {
  RETURN_IF_ERROR(CheckMetric(parts, metric, field));
  RETURN_IF_ERROR(CheckDependence(parts, metric, with_respect_to, field));
  RETURN_IF_ERROR(CheckPoint(parts, with_respect_to.point, field));
  const int run = with_respect_to.run;
  ASSIGN_OR_RETURN(const int node, parts.builder.AddGradient(
                                       std::move(with_respect_to), field));
  PassOf(parts.plan, run, metric).gradients.push_back(node);
  return node;
}

}  // namespace phitap
