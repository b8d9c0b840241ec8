// Axes of sweeps as people type them, and what their cells are called.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CLI_AXIS_TEXT_H_
#define PHITAP_CLIENT_CLI_AXIS_TEXT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cpp/trace.h"
#include "phitap/v1/program.pb.h"

namespace phitap::cli {

// One line for --help: the grammar that ParseAxes reads.
extern const char kAxisGrammar[];

// What `--axes` takes: layers[:WINDOW], positions[:SET], heads[:SET] and
// scales:NUMBERS between commas. INVALID_ARGUMENT points at what is wrong.
absl::StatusOr<std::vector<v1::SweepAxis>> ParseAxes(absl::string_view text);

// The cells along one axis of an answer.
struct NamedAxis {
  // `layers`, `positions`, `heads` or `scales`.
  std::string kind;
  // Layer, position, head or scale of each cell.
  std::vector<double> values;
  // `layer 5`, `·Mary`, `head 2`, `×0.5`.
  std::vector<std::string> labels;
};

// `size` cells of an axis in a run whose edits are at `hook_points`.
NamedAxis NameAxis(const v1::SweepAxis& axis, absl::string_view hook_points,
                   const client::TracedRun& run, int64_t size);

}  // namespace phitap::cli

#endif  // PHITAP_CLIENT_CLI_AXIS_TEXT_H_
