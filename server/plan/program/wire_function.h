// The protocol's functions and reductions, and ours.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_PROGRAM_WIRE_FUNCTION_H_
#define PHITAP_SERVER_PLAN_PROGRAM_WIRE_FUNCTION_H_

#include <optional>

#include "phitap/v1/program.pb.h"
#include "server/plan/program.h"

namespace phitap {

// Nothing for unspecified ones and those of another version.
std::optional<Function> FromWire(v1::Function function);
std::optional<ReduceOp::Kind> FromWire(v1::ReduceKind kind);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_PROGRAM_WIRE_FUNCTION_H_
