// SPDX-License-Identifier: Apache-2.0
#include "server/trace/apply_write.h"

#include <ATen/core/Tensor.h>

#include <vector>

#include "absl/functional/function_ref.h"
#include "server/trace/part_values.h"

namespace phitap {
namespace {

// What a write sets a part to.
struct PartEdit {
  at::Tensor value;
  at::Tensor condition;
};

// `take` is the part as it stands; asked for only where it counts.
PartEdit EditOf(const WrittenPart& part, NodeValues& values,
                absl::FunctionRef<at::Tensor()> take) {
  const PlannedWrite& write = *part.write;
  const std::vector<ProgramNode>& nodes = values.plan().nodes;
  const bool conditional = write.condition >= 0;
  const bool needs_current = nodes[write.value].in_write ||
                             (conditional && nodes[write.condition].in_write);
  PartValues scope(values, part, needs_current ? take() : at::Tensor());
  PartEdit edit{.value = scope.Value(write.value)};
  if (conditional) edit.condition = scope.Value(write.condition);
  return edit;
}

}  // namespace

bool ApplyWrite(const PlannedWrite& write, const WriteScope& scope,
                const TokenLayout::Row& lines, EditedMatrix& matrix) {
  bool written = false;
  for (const WrittenPart& part : PartsOf(write, lines, scope.sequence)) {
    const PartEdit edit =
        EditOf(part, scope.values, [&] { return matrix.Take(part); });
    written |= matrix.Put(part, edit.value, edit.condition, scope.same_bits);
  }
  return written;
}

bool ApplyWrite(const PlannedWrite& write, const WriteScope& scope,
                const PatternBlock& block, EditedPattern& pattern) {
  bool written = false;
  for (const WrittenPart& part : PartsOf(write, block, scope.sequence)) {
    const PartEdit edit =
        EditOf(part, scope.values, [&] { return pattern.Take(part); });
    written |= pattern.Put(part, scope.sequence, edit.value, edit.condition,
                           scope.same_bits);
  }
  return written;
}

}  // namespace phitap
