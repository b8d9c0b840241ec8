// A trace for people.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CLI_TRACE_REPORT_H_
#define PHITAP_CLIENT_CLI_TRACE_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/cli/terminal.h"
#include "client/cli/traced_groups.h"
#include "client/cpp/trace.h"

namespace phitap::cli {

// Ids that RenderGroups names, each once.
std::vector<int32_t> IdsToName(const std::vector<TracedGroup>& groups);

// Model, numerics and, for each run, its tokens, the interventions that the
// request makes in it, and the tokens that it went on with.
std::string RenderRuns(const client::Trace& trace,
                       const v1::TraceRequest& request,
                       const Terminal& terminal);

// Each group as what it is: a lens table, likeliest tokens, attention
// heatmaps, or strips. Of many groups the first.
std::string RenderGroups(const std::vector<TracedGroup>& groups,
                         const TokenNames& names, const Terminal& terminal);

// One line of counts and times; `elapsed` is the whole call.
std::string RenderSummary(const client::Trace& trace, absl::Duration elapsed,
                          const Terminal& terminal);

}  // namespace phitap::cli

#endif  // PHITAP_CLIENT_CLI_TRACE_REPORT_H_
