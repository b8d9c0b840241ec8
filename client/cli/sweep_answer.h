// What a sweep measured, with what it is measured against.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CLI_SWEEP_ANSWER_H_
#define PHITAP_CLIENT_CLI_SWEEP_ANSWER_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/axis_text.h"
#include "client/cli/invocation.h"
#include "client/cpp/trace.h"
#include "phitap/v1/trace.pb.h"

namespace phitap::cli {

// A sweep that was asked for: the request has it as its only one, and captures
// of nodes for what it is measured against.
struct SweepQuestion {
  v1::TraceRequest request;
  // What each metric was typed as, in the sweep's order.
  std::vector<std::string> metric_texts;
  // Label of the run that the edits take their values from; empty where that is
  // not one run.
  std::string reference_run;
};

// Adds, for each metric, its value in the unedited run and in the reference run
// to what is asked for.
void AddBaselines(SweepQuestion* question);

// The one run besides the sweep's own that its edits read; else "".
std::string ReferenceRunOf(const v1::Sweep& sweep);

// One metric over the grid.
struct SweptMetric {
  std::string label;
  std::string text;
  HostTensor values;
  // In the run as it is, and in the reference run.
  std::optional<double> unedited;
  std::optional<double> reference;
};

struct SweepAnswer {
  std::string run;
  std::string reference_run;
  std::vector<NamedAxis> axes;
  std::vector<SweptMetric> metrics;
};

// NOT_FOUND where a tensor of the sweep did not come, as when a cell failed.
absl::StatusOr<SweepAnswer> AnswerOf(const SweepQuestion& question,
                                     const client::Trace& trace);

Json ToJson(const SweepAnswer& answer);

}  // namespace phitap::cli

#endif  // PHITAP_CLIENT_CLI_SWEEP_ANSWER_H_
