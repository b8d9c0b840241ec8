// Grids of runs that differ in one edit, written shortly.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CPP_SWEEP_H_
#define PHITAP_CLIENT_CPP_SWEEP_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "client/cpp/edit.h"
#include "client/cpp/metric.h"
#include "phitap/v1/program.pb.h"

namespace phitap::client {

// A cell for each layer that the edits' hook points name.
struct OverLayers {
  // Layers that a cell edits, from its own on.
  int32_t window = 1;
};
// A cell for each position; unset means every token of the prompt.
struct OverPositions {
  std::optional<v1::IndexSet> positions;
};
// A cell for each head; unset means all.
struct OverHeads {
  std::optional<v1::IndexSet> heads;
};
// A cell for each factor of the edits' scale.
struct OverScales {
  std::vector<double> scales;
};
using Axis = std::variant<OverLayers, OverPositions, OverHeads, OverScales>;

// One float32 tensor for each metric, its dimensions the axes.
struct Sweep {
  // Label of the run that every cell repeats.
  std::string run;
  std::vector<Edit> edits;
  // The first is the slowest.
  std::vector<Axis> axes;
  std::vector<Metric> metrics;
  // Name in the answer; default `sweep` and its index.
  std::string label;
};

v1::SweepAxis ToMessage(const Axis& axis);
v1::Sweep ToMessage(const Sweep& sweep);

}  // namespace phitap::client

#endif  // PHITAP_CLIENT_CPP_SWEEP_H_
