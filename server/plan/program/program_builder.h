// Adds nodes to a plan, one at a time, and works out their shapes.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_PROGRAM_PROGRAM_BUILDER_H_
#define PHITAP_SERVER_PLAN_PROGRAM_PROGRAM_BUILDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/base/host_tensor.h"
#include "server/plan/plan_context.h"
#include "server/plan/program.h"
#include "server/plan/program/shapes.h"
#include "server/plan/trace_plan.h"

namespace phitap {

// Every Add returns the node's index in TracePlan::nodes: a new node's, or for
// a source that the plan has already (an equal read or number) that one's.
// INVALID_ARGUMENT against `field` where inputs do not fit the operation (their
// number, ranks, sizes); RESOURCE_EXHAUSTED past a limit on nodes, constants or
// a value's bytes. Thread-compatible; context and plan outlive it.
class ProgramBuilder {
 public:
  ProgramBuilder(const PlanContext& context, TracePlan& plan)
      : context_(context), plan_(plan) {}

  // An operation with inputs; its attributes are checked against their shapes,
  // dimensions may count from the end. ReshapeOp goes through AddReshape,
  // sources through what follows.
  absl::StatusOr<int> Add(Operation operation, std::vector<int> inputs,
                          absl::string_view field);
  // One size may be −1: what is left.
  absl::StatusOr<int> AddReshape(int input, const std::vector<int64_t>& shape,
                                 absl::string_view field);
  // The part of a value that the read selects, which holds no integers; the
  // run's prompt must be planned.
  absl::StatusOr<int> AddRead(RunRead read, absl::string_view field);
  // Always a new node.
  absl::StatusOr<int> AddGradient(RunRead with_respect_to,
                                  absl::string_view field);
  // Shares the bytes, which count towards Limits::max_constant_bytes.
  absl::StatusOr<int> AddConstant(HostTensor value, absl::string_view field);
  // The same for a tensor that the server keeps: its bytes do not count.
  absl::StatusOr<int> AddKept(HostTensor value, absl::string_view field);
  absl::StatusOr<int> AddNumber(double value, absl::string_view field);
  // `shape` is that of the part that is being edited; not looked at where
  // `like` is set.
  absl::StatusOr<int> AddNoise(NoiseValue noise,
                               const std::vector<int64_t>& shape,
                               absl::string_view field);
  // The part of a write, [positions, …] or as the hook point has it.
  absl::StatusOr<int> AddCurrent(const std::vector<int64_t>& shape,
                                 absl::string_view field);

  const std::vector<int64_t>& ShapeOf(int node) const {
    return plan_.nodes[node].shape;
  }

  // Nodes that several places refer to by a name of theirs, so that each is
  // made once: −1 where there is none of this name.
  int FindShared(absl::string_view name) const;
  void Share(absl::string_view name, int node);

 private:
  absl::StatusOr<int> Append(ProgramNode node);
  // INVALID_ARGUMENT for integers; else the shape of the part.
  absl::StatusOr<Shape> ReadShape(const RunRead& read, absl::string_view field);
  absl::Status CountIndices(const RunRead& read, absl::string_view field);

  const PlanContext& context_;
  TracePlan& plan_;
  int64_t constant_bytes_ = 0;
  int64_t index_count_ = 0;
  absl::flat_hash_map<std::string, int> shared_;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_PROGRAM_PROGRAM_BUILDER_H_
