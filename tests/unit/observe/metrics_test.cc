#include "server/observe/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"

namespace phitap {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Text(const std::vector<prometheus::MetricFamily>& families) {
  return prometheus::TextSerializer().Serialize(families);
}

TEST(MetricTable, NamesEachOnceByTheConventions) {
  std::set<std::string> names;
  for (const MetricDeclaration& declared : AllMetrics()) {
    const std::string name(declared.name);
    SCOPED_TRACE(name);
    EXPECT_TRUE(names.insert(name).second);
    EXPECT_TRUE(absl::StartsWith(name, "phitap_") ||
                absl::StartsWith(name, "process_"));
    EXPECT_EQ(absl::EndsWith(name, "_total"),
              declared.kind == MetricKind::kCounter);
    EXPECT_EQ(declared.kind == MetricKind::kHistogram,
              !declared.buckets.empty());
    if (declared.unit == "seconds" || declared.unit == "bytes") {
      EXPECT_THAT(name, HasSubstr(std::string(declared.unit)));
    }
  }
}

TEST(MetricTable, ExplainsEachAndGivesItsUnit) {
  for (const MetricDeclaration& declared : AllMetrics()) {
    SCOPED_TRACE(std::string(declared.name));
    EXPECT_GT(declared.help.size(), 10u);
    EXPECT_FALSE(declared.unit.empty());
  }
}

TEST(MetricTable, HasNoLabelThatCallersFill) {
  const std::set<std::string> known = {
      "method", "code",  "reason", "caller",  "model",    "outcome", "kind",
      "stage",  "phase", "state",  "version", "libtorch", "grpc",    "commit"};
  for (const MetricDeclaration& declared : AllMetrics()) {
    const std::vector<std::string> labels =
        absl::StrSplit(declared.labels, ", ", absl::SkipEmpty());
    for (const std::string& label : labels) EXPECT_EQ(known.count(label), 1u);
  }
}

TEST(Metrics, ExposesWhatWasCountedWithItsLabelsHelpAndUnit) {
  Metrics metrics;
  metrics.CounterOf(Metric::kCalls, {"Trace", "OK"}).Increment(3);
  EXPECT_THAT(
      Text(metrics.Collect()),
      HasSubstr("# HELP phitap_calls_total Calls that have ended, by "
                "method and gRPC code [calls]\n"
                "# TYPE phitap_calls_total counter\n"
                "phitap_calls_total{code=\"OK\",method=\"Trace\"} 3\n"));
}

TEST(Metrics, FindsTheSameCounterAgain) {
  Metrics metrics;
  prometheus::Counter& first = metrics.CounterOf(Metric::kCalls, {"a", "OK"});
  EXPECT_EQ(&metrics.CounterOf(Metric::kCalls, {"a", "OK"}), &first);
  EXPECT_NE(&metrics.CounterOf(Metric::kCalls, {"b", "OK"}), &first);
}

TEST(Metrics, CountsIntoTheBucketsOfTheDeclaration) {
  Metrics metrics;
  metrics.HistogramOf(Metric::kWaveTokens, {"phi", "prompt"}).Observe(14);
  const std::string text = Text(metrics.Collect());
  EXPECT_THAT(text,
              HasSubstr("phitap_wave_tokens_bucket{model=\"phi\",phase=\"prompt"
                        "\",le=\"8\"} 0\n"));
  EXPECT_THAT(text,
              HasSubstr("phitap_wave_tokens_bucket{model=\"phi\",phase=\"prompt"
                        "\",le=\"16\"} 1\n"));
}

TEST(Metrics, TotalsACounterOverItsLabels) {
  Metrics metrics;
  metrics.CounterOf(Metric::kSentBytes, {"phi", "named"}).Increment(5);
  metrics.CounterOf(Metric::kSentBytes, {"demo", "anonymous"}).Increment(7);
  EXPECT_EQ(metrics.Total(Metric::kSentBytes), 12);
  EXPECT_EQ(metrics.Total(Metric::kTokenLayersSaved), 0);
  EXPECT_EQ(metrics.Total(Metric::kSentBytes, "model", "phi"), 5);
  EXPECT_EQ(metrics.Total(Metric::kSentBytes, "model", "named"), 0);
}

TEST(Samples, AreExposedByTheirDeclarations) {
  const std::string text = Text(ToFamilies(
      {{.metric = Metric::kMemoryBytes,
        .label_values = {"roots"},
        .value = 4096},
       {.metric = Metric::kProcessCpuSeconds, .value = 1.5},
       {.metric = Metric::kMemoryBytes, .label_values = {"tensors"}}}));
  EXPECT_THAT(text, HasSubstr("# TYPE phitap_memory_bytes gauge\n"
                              "phitap_memory_bytes{kind=\"roots\"} 4096\n"
                              "phitap_memory_bytes{kind=\"tensors\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE process_cpu_seconds_total counter\n"
                              "process_cpu_seconds_total 1.5\n"));
  EXPECT_THAT(text, Not(HasSubstr("phitap_ready")));
}

}  // namespace
}  // namespace phitap
