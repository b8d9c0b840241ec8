// Metrics as people type them: `logit-diff: Mary, John`.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CLI_METRIC_TEXT_H_
#define PHITAP_CLIENT_CLI_METRIC_TEXT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cpp/metric.h"

namespace phitap::cli {

// Lines for --help: the grammar that ParseMetric reads.
extern const char kMetricGrammar[];

enum class MetricWord {
  kLogit,
  kLogitDifference,
  kProbability,
  kLogProbability,
  kKl
};

// A metric before its tokens are looked up.
struct TypedMetric {
  // As typed.
  std::string text;
  // Its name, else the word for its kind.
  std::string label;
  MetricWord word = MetricWord::kLogit;
  // Texts as typed, spaces included, or `#` and an id; one, or two for a
  // difference. The run's label for kl.
  std::vector<std::string> arguments;
  std::optional<int32_t> position;
};

// What `--metric` takes: [NAME=]KIND[@position=N]:ARGUMENTS. INVALID_ARGUMENT
// points at what is wrong.
absl::StatusOr<TypedMetric> ParseMetric(absl::string_view text);

// The id of a token by its text.
using TokenLookup =
    std::function<absl::StatusOr<int32_t>(const std::string& text)>;

// A metric of no run, as a sweep has it, with its tokens looked up.
absl::StatusOr<client::Metric> ResolveMetric(const TypedMetric& typed,
                                             const TokenLookup& lookup);

}  // namespace phitap::cli

#endif  // PHITAP_CLIENT_CLI_METRIC_TEXT_H_
