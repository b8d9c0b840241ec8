// Adds nodes to a plan, one at a time, and works out their shapes.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_PROGRAM_BUILDER_H_
#define PHITAP_SERVER_PLAN_PROGRAM_BUILDER_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/base/host_tensor.h"
#include "server/plan/plan_context.h"
#include "server/plan/program.h"
#include "server/plan/trace_plan.h"

namespace phitap {

// Every Add returns the new node's index in TracePlan::nodes. INVALID_ARGUMENT
// against `field` where inputs do not fit the operation (their number, ranks,
// sizes); RESOURCE_EXHAUSTED past a limit on nodes, constants or a value's
// bytes. Thread-compatible; context and plan outlive it.
class ProgramBuilder {
 public:
  ProgramBuilder(const PlanContext& context, TracePlan& plan)
      : context_(context), plan_(plan) {}

  // An operation with inputs; its attributes are checked against their shapes.
  // ReshapeOp goes through AddReshape, sources through what follows.
  absl::StatusOr<int> Add(Operation operation, std::vector<int> inputs,
                          absl::string_view field);
  absl::StatusOr<int> AddReshape(int input, const std::vector<int64_t>& shape,
                                 absl::string_view field);
  // The part of a value that the read selects; the run's prompt must be
  // planned.
  absl::StatusOr<int> AddRead(RunRead read, absl::string_view field);
  absl::StatusOr<int> AddGradient(RunRead with_respect_to,
                                  absl::string_view field);
  // Shares the bytes.
  absl::StatusOr<int> AddConstant(HostTensor value, absl::string_view field);
  absl::StatusOr<int> AddNumber(double value, absl::string_view field);
  absl::StatusOr<int> AddNoise(NoiseValue noise,
                               const std::vector<int64_t>& shape,
                               absl::string_view field);
  // The part of a write, [positions, …] or as the hook point has it.
  absl::StatusOr<int> AddCurrent(const std::vector<int64_t>& shape,
                                 absl::string_view field);

  const std::vector<int64_t>& ShapeOf(int node) const {
    return plan_.nodes[node].shape;
  }

 private:
  absl::StatusOr<int> Append(ProgramNode node);

  const PlanContext& context_;
  TracePlan& plan_;
  int64_t constant_bytes_ = 0;
};

// The shape of the part of a hook point's value that a selection keeps in the
// prompt's pass of a run of `token_count` tokens.
std::vector<int64_t> SelectedShape(Hook hook,
                                   const ResolvedSelection& selection,
                                   const ModelSpec& spec, int64_t token_count);

// Whether `from` broadcasts to `to` as in NumPy.
bool BroadcastsTo(const std::vector<int64_t>& from,
                  const std::vector<int64_t>& to);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_PROGRAM_BUILDER_H_
