// What the server counts, and how others read it.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_OBSERVE_METRICS_H_
#define PHITAP_SERVER_OBSERVE_METRICS_H_

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "server/observe/metric_table.h"

namespace phitap {

// A value that is read when somebody asks for it.
struct MetricSample {
  Metric metric = Metric::kReady;
  // Of its labels, in the declaration's order.
  std::vector<std::string> label_values;
  double value = 0;
};
// Thread-safe.
using SampleSource = std::function<std::vector<MetricSample>()>;

// The counters and histograms of AllMetrics. Thread-safe.
class Metrics {
 public:
  Metrics();

  // The one with these values of its labels, in the declaration's order. It
  // lives as long as this does. Finding it takes a lock and allocates, so
  // whoever counts often finds it once; counting does neither of note.
  prometheus::Counter& CounterOf(
      Metric metric, std::initializer_list<absl::string_view> label_values);
  prometheus::Histogram& HistogramOf(
      Metric metric, std::initializer_list<absl::string_view> label_values);

  // Of a counter, over all values of its labels, or where `label` has `value`.
  double Total(Metric metric, absl::string_view label = "",
               absl::string_view value = "") const;

  std::vector<prometheus::MetricFamily> Collect() const {
    return registry_.Collect();
  }

 private:
  prometheus::Registry registry_;
  // Those of their kind.
  std::map<Metric, prometheus::Family<prometheus::Counter>*> counters_;
  std::map<Metric, prometheus::Family<prometheus::Histogram>*> histograms_;
};

// The samples in the form in which they are exposed.
std::vector<prometheus::MetricFamily> ToFamilies(
    const std::vector<MetricSample>& samples);

}  // namespace phitap

#endif  // PHITAP_SERVER_OBSERVE_METRICS_H_
