// Draws sweeps.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CLI_SWEEP_VIEW_H_
#define PHITAP_CLIENT_CLI_SWEEP_VIEW_H_

#include <string>

#include "client/cli/sweep_answer.h"
#include "client/cli/terminal.h"

namespace phitap::cli {

enum class SweepScale {
  // Percent of the way from the unedited run to the reference run, where both
  // are known and differ.
  kNormalised,
  kRaw,
};

// For each metric a line that says what it was in the runs, and a grid: the
// first axis down (layers with the last on top), the second across, one grid
// for each cell of further axes before them.
std::string RenderSweep(const SweepAnswer& answer, SweepScale scale,
                        const Terminal& terminal);

// The numbers themselves, in the same order.
std::string RenderSweepValues(const SweepAnswer& answer,
                              const Terminal& terminal);

}  // namespace phitap::cli

#endif  // PHITAP_CLIENT_CLI_SWEEP_VIEW_H_
