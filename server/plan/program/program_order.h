// The order in which a program's nodes can be made.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_PROGRAM_PROGRAM_ORDER_H_
#define PHITAP_SERVER_PLAN_PROGRAM_PROGRAM_ORDER_H_

#include <vector>

#include "absl/status/statusor.h"
#include "phitap/v1/program.pb.h"
#include "server/plan/limits.h"

namespace phitap {

// Every node's index, each after those that it names. INVALID_ARGUMENT for a
// name that is empty, too long, given twice or no node's, and for a cycle,
// `"a" -> "b" -> "a"`: a needs b, which needs a. RESOURCE_EXHAUSTED for too
// many nodes.
absl::StatusOr<std::vector<int>> OrderProgram(const v1::Program& program,
                                              const Limits& limits);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_PROGRAM_PROGRAM_ORDER_H_
