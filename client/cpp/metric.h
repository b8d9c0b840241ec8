// One number that says how a run came out, and gradients of it.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CPP_METRIC_H_
#define PHITAP_CLIENT_CPP_METRIC_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "client/cpp/selection.h"
#include "client/cpp/source.h"
#include "phitap/v1/program.pb.h"

namespace phitap::client {

struct Logit {
  int32_t token_id = 0;
};
// The logit of one token minus that of another.
struct LogitDifference {
  int32_t token_id = 0;
  int32_t baseline_token_id = 0;
};
struct Probability {
  int32_t token_id = 0;
  // Its natural logarithm instead.
  bool log = false;
};
// KL(p ‖ q), p the next token's distribution in that run.
struct KlFromRun {
  std::string run;
};
using MetricKind =
    std::variant<Logit, LogitDifference, Probability, KlFromRun, OfNode>;

struct Metric {
  MetricKind kind;
  // Name in the answer.
  std::string label;
  // Label of the run; in a sweep empty, for the cell's own.
  std::string run;
  // Whose prediction counts, negative from the end; unset means the last.
  std::optional<int32_t> position;
};

// The gradient of a metric with respect to hook points of one run.
struct Gradient {
  Metric of;
  std::string hook_points;
  Selection selection;
  // Name in the answer; default `gradient` and its index.
  std::string label;
  // Default: the metric's run.
  std::string run;
  // Element type on the wire; unspecified means float32.
  v1::DataType dtype = v1::DATA_TYPE_UNSPECIFIED;
};

v1::Metric ToMessage(const Metric& metric);
v1::Gradient ToMessage(const Gradient& gradient);

}  // namespace phitap::client

#endif  // PHITAP_CLIENT_CPP_METRIC_H_
