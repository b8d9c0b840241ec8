// One way in which the cells of a sweep differ, resolved.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_SWEEPS_SWEEP_AXIS_H_
#define PHITAP_SERVER_PLAN_SWEEPS_SWEEP_AXIS_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "phitap/v1/program.pb.h"
#include "server/plan/sweeps/expand_sweeps.h"
#include "server/plan/trace_plan.h"
#include "server/spec/hook_point.h"
#include "server/spec/model_spec.h"

namespace phitap {

// A sweep that is being expanded; all outlive it.
struct SweepParts {
  const v1::Sweep& sweep;
  // "sweeps[2]"
  std::string field;
  const ModelSpec& spec;
  const PlannedRun& base_run;
  // The hook points of each intervention.
  std::vector<std::vector<HookPoint>> points;
};

class SweepAxis {
 public:
  // INVALID_ARGUMENT where an intervention has no place for the axis, or says
  // already what it says.
  static absl::StatusOr<SweepAxis> Create(const SweepParts& parts, int index);

  // "layer", "position", "head", "scale".
  const std::string& name() const { return name_; }
  int64_t size() const;
  // Sets what the axis says at `index`.
  void Apply(int64_t index, SweepCell& cell) const;

 private:
  struct Layers {
    std::vector<int> layers;
    int64_t window = 1;
  };
  struct Positions {
    std::vector<int64_t> indices;
  };
  struct Heads {
    std::vector<int64_t> indices;
  };
  struct Scales {
    std::vector<double> values;
  };
  using Values = std::variant<Layers, Positions, Heads, Scales>;

  SweepAxis(std::string name, Values values)
      : name_(std::move(name)), values_(std::move(values)) {}

  static absl::StatusOr<SweepAxis> OfLayers(const SweepParts& parts,
                                            const std::string& field,
                                            const v1::LayersAxis& axis);
  static absl::StatusOr<SweepAxis> OfPositions(const SweepParts& parts,
                                               const std::string& field,
                                               const v1::PositionsAxis& axis);
  static absl::StatusOr<SweepAxis> OfHeads(const SweepParts& parts,
                                           const std::string& field,
                                           const v1::HeadsAxis& axis);
  static absl::StatusOr<SweepAxis> OfScales(const SweepParts& parts,
                                            const std::string& field,
                                            const v1::ScalesAxis& axis);

  std::string name_;
  Values values_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_SWEEPS_SWEEP_AXIS_H_
