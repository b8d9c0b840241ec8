// What a server is doing, as a picture for the terminal.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CLI_ACTIVITY_VIEW_H_
#define PHITAP_CLIENT_CLI_ACTIVITY_VIEW_H_

#include <deque>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/cli/activity_rates.h"
#include "client/cli/terminal.h"

namespace phitap::cli {

// The picture: load, memory, models, callers. Lines end in newlines, none is
// wider than the terminal. `server` is its address.
std::string RenderActivity(const ActivityHistory& history,
                           absl::string_view server, const Terminal& terminal);

// The same in one line, for logs: time, load, rates, resident memory.
std::string ActivityLine(const ActivityHistory& history);

// `share` of a bar of so many columns, in eighths of one: `███▌····`.
std::string MeterText(double share, int width);

// The last `width` values, each as high as its share of the largest.
std::string SparkText(const std::deque<double>& values, int width);

// "3 d 4 h", "2 h 14 min", "9 min", "42 s".
std::string AgeText(absl::Duration age);

}  // namespace phitap::cli

#endif  // PHITAP_CLIENT_CLI_ACTIVITY_VIEW_H_
