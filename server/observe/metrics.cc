#include "server/observe/metrics.h"

#include <prometheus/metric_family.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"

namespace phitap {
namespace {

// Of none where `labels` is empty.
std::vector<std::string> LabelNames(const MetricDeclaration& declared) {
  return absl::StrSplit(declared.labels, ", ", absl::SkipEmpty());
}

// The text format has no place for the unit but this.
std::string HelpOf(const MetricDeclaration& declared) {
  return absl::StrCat(declared.help, " [", declared.unit, "]");
}

prometheus::Labels LabelsOf(const MetricDeclaration& declared,
                            absl::Span<const absl::string_view> values) {
  const std::vector<std::string> names = LabelNames(declared);
  prometheus::Labels labels;
  for (size_t i = 0; i < names.size(); ++i) {
    labels.emplace(names[i], std::string(values.at(i)));
  }
  return labels;
}

std::vector<double> BucketsOf(const MetricDeclaration& declared) {
  return {declared.buckets.begin(), declared.buckets.end()};
}

}  // namespace

Metrics::Metrics() {
  for (const MetricDeclaration& declared : AllMetrics()) {
    const std::string name(declared.name);
    if (declared.kind == MetricKind::kHistogram) {
      histograms_[declared.metric] = &prometheus::BuildHistogram()
                                          .Name(name)
                                          .Help(HelpOf(declared))
                                          .Register(registry_);
    } else if (declared.kind == MetricKind::kCounter) {
      counters_[declared.metric] = &prometheus::BuildCounter()
                                        .Name(name)
                                        .Help(HelpOf(declared))
                                        .Register(registry_);
    }
  }
}

prometheus::Counter& Metrics::CounterOf(
    Metric metric, std::initializer_list<absl::string_view> label_values) {
  return counters_.at(metric)->Add(
      LabelsOf(DeclarationOf(metric), label_values));
}

prometheus::Histogram& Metrics::HistogramOf(
    Metric metric, std::initializer_list<absl::string_view> label_values) {
  const MetricDeclaration& declared = DeclarationOf(metric);
  return histograms_.at(metric)->Add(LabelsOf(declared, label_values),
                                     BucketsOf(declared));
}

double Metrics::Total(Metric metric, absl::string_view label,
                      absl::string_view value) const {
  double total = 0;
  for (const prometheus::MetricFamily& family :
       counters_.at(metric)->Collect()) {
    for (const prometheus::ClientMetric& child : family.metric) {
      const bool counts =
          label.empty() ||
          std::any_of(child.label.begin(), child.label.end(),
                      [&](const prometheus::ClientMetric::Label& known) {
                        return known.name == label && known.value == value;
                      });
      if (counts) total += child.counter.value;
    }
  }
  return total;
}

std::vector<prometheus::MetricFamily> ToFamilies(
    const std::vector<MetricSample>& samples) {
  std::map<Metric, prometheus::MetricFamily> families;
  for (const MetricSample& sample : samples) {
    const MetricDeclaration& declared = DeclarationOf(sample.metric);
    const bool counter = declared.kind == MetricKind::kCounter;
    prometheus::MetricFamily& family = families[sample.metric];
    family.name = std::string(declared.name);
    family.help = HelpOf(declared);
    family.type = counter ? prometheus::MetricType::Counter
                          : prometheus::MetricType::Gauge;
    prometheus::ClientMetric& child = family.metric.emplace_back();
    (counter ? child.counter.value : child.gauge.value) = sample.value;
    const std::vector<std::string> names = LabelNames(declared);
    for (size_t i = 0; i < names.size(); ++i) {
      child.label.push_back({names[i], sample.label_values.at(i)});
    }
  }
  std::vector<prometheus::MetricFamily> exposed;
  for (auto& [metric, family] : families) exposed.push_back(std::move(family));
  return exposed;
}

}  // namespace phitap
