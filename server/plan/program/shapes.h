// Sizes of values, and how they fit together.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_PLAN_PROGRAM_SHAPES_H_
#define PHITAP_SERVER_PLAN_PROGRAM_SHAPES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/plan/program.h"
#include "server/spec/hook_point.h"
#include "server/spec/model_spec.h"

namespace phitap {

// Size of each dimension, all at least 1; empty for one number.
using Shape = std::vector<int64_t>;

// "[5, 24]"; one number is "[]".
std::string ShapeText(const Shape& shape);

// What both broadcast to as in NumPy; nothing where they do not.
std::optional<Shape> BroadcastShape(const Shape& a, const Shape& b);

// Whether `from` broadcasts to `to` as in NumPy.
bool BroadcastsTo(const Shape& from, const Shape& to);

// The product of the sizes, or the largest number past it.
int64_t SaturatingElements(const Shape& shape);

// The shape of the part of a hook point's value that a selection keeps in the
// prompt's pass of a run of `token_count` tokens.
Shape SelectedShape(Hook hook, const ResolvedSelection& selection,
                    const ModelSpec& spec, int64_t token_count);

}  // namespace phitap

#endif  // PHITAP_SERVER_PLAN_PROGRAM_SHAPES_H_
