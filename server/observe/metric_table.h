// Every metric of the server, declared once: dashboards, alerts and tests use
// these names.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_OBSERVE_METRIC_TABLE_H_
#define PHITAP_SERVER_OBSERVE_METRIC_TABLE_H_

#include <cstddef>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace phitap {

enum class Metric {
  // Calls.
  kCalls,
  kRefusals,
  // Traces.
  kTraces,
  kRuns,
  kFailedRuns,
  kTokens,
  kTokenLayersComputed,
  kTokenLayersSaved,
  kSentBytes,
  kStageSeconds,
  // The engine.
  kQueueWaitSeconds,
  kWaveTokens,
  kWaveSteps,
  kWavesSetAside,
  kComputeSeconds,
  // Read when they are asked for.
  kQueuedRequests,
  kRunningRequests,
  kWavesUnderWay,
  kWaveTokensUnderWay,
  kMemoryBytes,
  kMemoryLimitBytes,
  kModelState,
  kReady,
  kBuild,
  kProcessStartTime,
  kProcessCpuSeconds,
  kProcessResidentBytes,
  kProcessOpenFiles,
  kProcessMaxFiles,
};
inline constexpr size_t kMetricCount =
    static_cast<size_t>(Metric::kProcessMaxFiles) + 1;

enum class MetricKind { kCounter, kGauge, kHistogram };

struct MetricDeclaration {
  Metric metric;
  // phitap_…; seconds and bytes are in the name, and it ends with _total where
  // it only grows.
  absl::string_view name;
  MetricKind kind;
  // What a value counts: "seconds", "tokens"; "1" of what is there or not.
  absl::string_view unit;
  // Names, in the order in which values are given: "model, caller". No value
  // of a label is a caller's to choose.
  absl::string_view labels;
  absl::string_view help;
  // Of a histogram: upper bounds of its buckets.
  absl::Span<const double> buckets;
};

// By Metric.
absl::Span<const MetricDeclaration> AllMetrics();
const MetricDeclaration& DeclarationOf(Metric metric);

}  // namespace phitap

#endif  // PHITAP_SERVER_OBSERVE_METRIC_TABLE_H_
