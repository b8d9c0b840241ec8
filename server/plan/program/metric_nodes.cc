#include "server/plan/program/metric_nodes.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/plan/captures/index_set.h"
#include "server/plan/order/reach.h"
#include "server/spec/quote.h"

namespace phitap {
namespace {

using Indices = std::optional<std::vector<int64_t>>;

// One index of a dimension, as a selection holds it.
Indices Only(int64_t index, int64_t size) {
  if (size == 1) return std::nullopt;
  return std::vector{index};
}

// Makes the nodes of one metric.
class MetricNodes {
 public:
  MetricNodes(const PlanParts& parts, const v1::Metric& metric,
              absl::string_view field)
      : parts_(parts), metric_(metric), field_(field) {}

  absl::StatusOr<int> Logit(int run, int64_t token) const {
    ASSIGN_OR_RETURN(const int logit,
                     Logits(run, Only(token, parts_.context.spec.vocab_size)));
    return parts_.builder.AddReshape(logit, {}, field_);
  }

  absl::StatusOr<int> Difference(int run, int64_t token,
                                 int64_t baseline) const {
    ASSIGN_OR_RETURN(const int a, Logit(run, token));
    ASSIGN_OR_RETURN(const int b, Logit(run, baseline));
    return parts_.builder.Add(FunctionOp{Function::kSubtract}, {a, b}, field_);
  }

  absl::StatusOr<int> Probability(int run, int64_t token,
                                  SoftmaxOp::Scale scale) const {
    ASSIGN_OR_RETURN(const int logits, Logits(run, std::nullopt));
    ASSIGN_OR_RETURN(const int all, Softmax(logits, scale));
    ASSIGN_OR_RETURN(const int one,
                     parts_.builder.Add(GatherOp{.dimension = -1,
                                                 .indices = std::vector{token}},
                                        {all}, field_));
    return parts_.builder.AddReshape(one, {}, field_);
  }

  // Σ p (ln p − ln q) over the tokens with p > 0.
  absl::StatusOr<int> Divergence(int from_run, int run) const {
    ASSIGN_OR_RETURN(const int p_logits, Logits(from_run, std::nullopt));
    ASSIGN_OR_RETURN(const int q_logits, Logits(run, std::nullopt));
    ASSIGN_OR_RETURN(const int p, Softmax(p_logits, SoftmaxOp::Scale::kLinear));
    ASSIGN_OR_RETURN(const int ln_p, Softmax(p_logits, SoftmaxOp::Scale::kLog));
    ASSIGN_OR_RETURN(const int ln_q, Softmax(q_logits, SoftmaxOp::Scale::kLog));
    ASSIGN_OR_RETURN(const int zero, parts_.builder.AddNumber(0, field_));
    ASSIGN_OR_RETURN(const int counts, Apply(Function::kLess, {zero, p}));
    ASSIGN_OR_RETURN(const int ratio, Apply(Function::kSubtract, {ln_p, ln_q}));
    ASSIGN_OR_RETURN(const int terms, Apply(Function::kMultiply, {p, ratio}));
    ASSIGN_OR_RETURN(const int counted,
                     Apply(Function::kWhere, {counts, terms, zero}));
    return parts_.builder.Add(ReduceOp{.kind = ReduceOp::Kind::kSum}, {counted},
                              field_);
  }

  // A node of one element as it is.
  absl::StatusOr<int> Node(const NodeIndex& nodes) const {
    const std::string path = absl::StrCat(field_, ".node");
    if (metric_.has_position()) {
      return InvalidField({.field = absl::StrCat(field_, ".position"),
                           .problem = "a node has no position",
                           .valid = "unset"});
    }
    ASSIGN_OR_RETURN(const int node, nodes.Find(metric_.node(), path));
    const Shape& shape = parts_.builder.ShapeOf(node);
    if (shape.empty()) return node;
    if (SaturatingElements(shape) == 1) {
      return parts_.builder.AddReshape(node, {}, field_);
    }
    return InvalidField(
        {.field = path,
         .problem = absl::StrCat("node ", Quoted(metric_.node()), " is ",
                                 ShapeText(shape)),
         .valid = "a node of one element"});
  }

 private:
  // [1, kept tokens]: the logits that predict what follows the position.
  absl::StatusOr<int> Logits(int run, Indices tokens) const {
    const PlannedRun& planned = parts_.plan.runs[run];
    const int64_t token_count = static_cast<int64_t>(planned.ids.size());
    const int64_t position = metric_.has_position() ? metric_.position() : -1;
    if (position < -token_count || position >= token_count) {
      return InvalidField(
          {.field = absl::StrCat(field_, ".position"),
           .problem = absl::StrCat(position, " is outside the ", token_count,
                                   " tokens of run ", Quoted(planned.label)),
           .valid = absl::StrCat(-token_count, " to ", token_count - 1)});
    }
    const int64_t resolved = position < 0 ? position + token_count : position;
    const HookPoint logits = {.hook = Hook::kLogits};
    return parts_.builder.AddRead(
        {.run = run,
         .point = logits,
         .read_at = ReadPoint(logits),
         .selection = {.positions = Only(resolved, token_count),
                       .features = std::move(tokens)}},
        field_);
  }

  absl::StatusOr<int> Apply(Function function, std::vector<int> inputs) const {
    return parts_.builder.Add(FunctionOp{function}, std::move(inputs), field_);
  }

  // Of the same logits once, however many metrics ask: a sweep's cells share
  // what they are compared with.
  absl::StatusOr<int> Softmax(int logits, SoftmaxOp::Scale scale) const {
    const std::string key =
        absl::StrCat("softmax ", logits, " ", static_cast<int>(scale));
    const int known = parts_.builder.FindShared(key);
    if (known >= 0) return known;
    ASSIGN_OR_RETURN(const int node,
                     parts_.builder.Add(SoftmaxOp{scale}, {logits}, field_));
    parts_.builder.Share(key, node);
    return node;
  }

  const PlanParts& parts_;
  const v1::Metric& metric_;
  const absl::string_view field_;
};

absl::StatusOr<int64_t> TokenOf(bool is_set, int32_t id, const ModelSpec& spec,
                                const std::string& field) {
  if (is_set && id >= 0 && id < spec.vocab_size) return id;
  return InvalidField(
      {.field = field,
       .problem = is_set ? absl::StrCat(id, " is not in the vocabulary")
                         : "is not set",
       .valid = absl::StrCat("0 to ", spec.vocab_size - 1)});
}

absl::StatusOr<int> RunOf(const PlanParts& parts, const v1::Metric& metric,
                          int run, const std::string& field) {
  if (run >= 0) return run;
  if (!metric.run().empty()) return FindRun(parts.runs, metric.run(), field);
  return InvalidField({.field = field,
                       .problem = "the run is not named",
                       .valid = "the label of a run"});
}

// Of a run's logits.
absl::StatusOr<int> MakeMetric(const PlanParts& parts, const v1::Metric& metric,
                               int run, absl::string_view field) {
  const MetricNodes made(parts, metric, field);
  const ModelSpec& spec = parts.context.spec;
  const auto path = [&](absl::string_view name) {
    return absl::StrCat(field, ".", name);
  };
  switch (metric.kind_case()) {
    case v1::Metric::kLogit: {
      const v1::LogitMetric& logit = metric.logit();
      ASSIGN_OR_RETURN(const int64_t token,
                       TokenOf(logit.has_token_id(), logit.token_id(), spec,
                               path("logit.token_id")));
      return made.Logit(run, token);
    }
    case v1::Metric::kLogitDifference: {
      const v1::LogitDifferenceMetric& logits = metric.logit_difference();
      ASSIGN_OR_RETURN(const int64_t token,
                       TokenOf(logits.has_token_id(), logits.token_id(), spec,
                               path("logit_difference.token_id")));
      ASSIGN_OR_RETURN(
          const int64_t baseline,
          TokenOf(logits.has_baseline_token_id(), logits.baseline_token_id(),
                  spec, path("logit_difference.baseline_token_id")));
      return made.Difference(run, token, baseline);
    }
    case v1::Metric::kProbability: {
      const v1::ProbabilityMetric& probability = metric.probability();
      ASSIGN_OR_RETURN(
          const int64_t token,
          TokenOf(probability.has_token_id(), probability.token_id(), spec,
                  path("probability.token_id")));
      return made.Probability(run, token,
                              probability.log() ? SoftmaxOp::Scale::kLog
                                                : SoftmaxOp::Scale::kLinear);
    }
    case v1::Metric::kKl: {
      ASSIGN_OR_RETURN(
          const int from_run,
          FindRun(parts.runs, metric.kl().from_run(), path("kl.from_run")));
      return made.Divergence(from_run, run);
    }
    default:
      return InvalidField(
          {.field = std::string(field),
           .problem = "says no kind of metric",
           .valid = "one of logit, logit_difference, probability, kl, node"});
  }
}

// Equal for equal metrics of a run, whatever they are called.
std::string Key(const v1::Metric& metric, int run) {
  v1::Metric unnamed = metric;
  unnamed.clear_label();
  unnamed.clear_run();
  return absl::StrCat("metric ", run, " ", unnamed.SerializeAsString());
}

}  // namespace

absl::StatusOr<int> AddMetric(const PlanParts& parts, const NodeIndex& nodes,
                              const v1::Metric& metric, int run,
                              absl::string_view field) {
  const bool is_node = metric.kind_case() == v1::Metric::kNode;
  if (!is_node) {
    ASSIGN_OR_RETURN(run,
                     RunOf(parts, metric, run, absl::StrCat(field, ".run")));
  }
  const std::string key = Key(metric, run);
  const int known = parts.builder.FindShared(key);
  if (known >= 0) return known;
  ASSIGN_OR_RETURN(const int node,
                   is_node ? MetricNodes(parts, metric, field).Node(nodes)
                           : MakeMetric(parts, metric, run, field));
  parts.builder.Share(key, node);
  return node;
}

}  // namespace phitap
