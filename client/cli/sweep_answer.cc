#include "client/cli/sweep_answer.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cli/trace_json.h"
#include "client/cpp/float_values.h"
#include "server/base/status_macros.h"

namespace phitap::cli {
namespace {

const v1::Sweep& SweepOf(const SweepQuestion& question) {
  return question.request.sweeps(0);
}

std::string NodeName(absl::string_view metric, absl::string_view run) {
  return absl::StrCat(metric, " of ", run);
}

// Whether a metric of a run says anything: KL from itself is 0.
bool IsFromItself(const v1::Metric& metric, absl::string_view run) {
  return metric.has_kl() && metric.kl().from_run() == run;
}

void AddBaseline(const v1::Metric& metric, const std::string& run,
                 v1::TraceRequest* request) {
  if (run.empty() || IsFromItself(metric, run)) return;
  const std::string name = NodeName(metric.label(), run);
  v1::Node* node = request->mutable_program()->add_nodes();
  node->set_name(name);
  *node->mutable_metric() = metric;
  node->mutable_metric()->set_run(run);
  v1::Capture* capture = request->add_captures();
  capture->set_label(name);
  capture->set_node(name);
}

std::optional<double> BaselineOf(const v1::Metric& metric,
                                 const std::string& run,
                                 const client::Trace& trace) {
  if (run.empty()) return std::nullopt;
  if (IsFromItself(metric, run)) return 0;
  const absl::StatusOr<const client::TracedTensor*> tensor =
      trace.Find({.label = NodeName(metric.label(), run)});
  if (!tensor.ok()) return std::nullopt;
  return client::ElementAt((*tensor)->value, 0);
}

void AddRunOf(const v1::EditSource& source, std::set<std::string>* runs) {
  if (source.has_run()) runs->insert(source.run().run());
}

Json BaselineJson(const std::string& run, const std::optional<double>& value) {
  if (!value) return nullptr;
  return {{"run", run}, {"value", *value}};
}

}  // namespace

std::string ReferenceRunOf(const v1::Sweep& sweep) {
  std::set<std::string> runs;
  for (const v1::Intervention& edit : sweep.interventions()) {
    AddRunOf(edit.set().value(), &runs);
    AddRunOf(edit.add().value(), &runs);
    AddRunOf(edit.subspace().source(), &runs);
    for (const v1::FeatureEdit& feature : edit.dictionary().edits()) {
      runs.insert(feature.from_run());
    }
  }
  runs.erase("");
  runs.erase(sweep.run());
  return runs.size() == 1 ? *runs.begin() : "";
}

void AddBaselines(SweepQuestion* question) {
  const v1::Sweep& sweep = SweepOf(*question);
  for (const v1::Metric& metric : sweep.metrics()) {
    AddBaseline(metric, sweep.run(), &question->request);
    AddBaseline(metric, question->reference_run, &question->request);
  }
}

absl::StatusOr<SweepAnswer> AnswerOf(const SweepQuestion& question,
                                     const client::Trace& trace) {
  const v1::Sweep& sweep = SweepOf(question);
  SweepAnswer answer = {.run = sweep.run(),
                        .reference_run = question.reference_run};
  const client::TracedRun* run = trace.FindRun(sweep.run());
  for (int i = 0; i < sweep.metrics_size(); ++i) {
    const v1::Metric& metric = sweep.metrics(i);
    ASSIGN_OR_RETURN(
        const client::TracedTensor* tensor,
        trace.Find({.label = sweep.label(), .part = metric.label()}));
    answer.metrics.push_back(
        {.label = metric.label(),
         .text = question.metric_texts[static_cast<size_t>(i)],
         .values = tensor->value,
         .unedited = BaselineOf(metric, sweep.run(), trace),
         .reference = BaselineOf(metric, question.reference_run, trace)});
  }
  const std::vector<int64_t>& shape = answer.metrics.front().values.shape;
  for (int i = 0; i < sweep.axes_size() && run != nullptr; ++i) {
    answer.axes.push_back(NameAxis(sweep.axes(i),
                                   sweep.interventions(0).hook_points(), *run,
                                   shape.at(static_cast<size_t>(i))));
  }
  return answer;
}

Json ToJson(const SweepAnswer& answer) {
  Json axes = Json::array();
  for (const NamedAxis& axis : answer.axes) {
    axes.push_back({{"kind", axis.kind},
                    {"values", axis.values},
                    {"labels", axis.labels}});
  }
  Json metrics = Json::array();
  for (const SweptMetric& metric : answer.metrics) {
    metrics.push_back(
        {{"label", metric.label},
         {"text", metric.text},
         {"unedited", BaselineJson(answer.run, metric.unedited)},
         {"reference", BaselineJson(answer.reference_run, metric.reference)},
         {"values", ValuesJson(metric.values)}});
  }
  return {{"run", answer.run},
          {"axes", std::move(axes)},
          {"metrics", std::move(metrics)}};
}

}  // namespace phitap::cli
