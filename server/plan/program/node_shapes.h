// What shape an operation makes of its inputs' shapes, and what it refuses.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_PROGRAM_NODE_SHAPES_H_
#define PHITAP_SERVER_PLAN_PROGRAM_NODE_SHAPES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/plan/program.h"
#include "server/plan/program/shapes.h"
#include "server/spec/model_spec.h"

namespace phitap {

// The shape of the operation's value. Dimensions that count from the end are
// made to count from the start, and sorted where their order says nothing.
// INVALID_ARGUMENT against `field` for another number of inputs, shapes that do
// not fit (they are named) or attributes out of range. Not for sources and
// ReshapeOp, whose shapes do not follow from their inputs.
absl::StatusOr<Shape> ResolveOperation(Operation& operation,
                                       const std::vector<Shape>& inputs,
                                       const ModelSpec& spec,
                                       absl::string_view field);

// The shape that reshaping `from` to `to` gives: one −1 stands for what is
// left. INVALID_ARGUMENT against `field` where the elements differ in number.
absl::StatusOr<Shape> ReshapedTo(const Shape& from, const Shape& to,
                                 absl::string_view field);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_PROGRAM_NODE_SHAPES_H_
