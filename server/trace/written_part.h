// Where a planned write meets a value of a forward.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_TRACE_WRITTEN_PART_H_
#define PHITAP_SERVER_TRACE_WRITTEN_PART_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "server/model/hooks.h"
#include "server/plan/program.h"

namespace phitap {

// A run's tokens as far as they are known, and what its queries see.
struct RunSequence {
  // Of the prompt, then those generated so far; by absolute position.
  absl::Span<const int32_t> ids;
  int64_t prompt_length = 0;
  // See Visibility; only for scores and probabilities.
  std::optional<int64_t> window;
  absl::Span<const int64_t> hidden_positions;
};

// What a write selects of the positions (or queries) that a matrix or block
// holds. Writes are computed part by part: what the matrix holds of the prompt
// is one part, each generated token another.
struct WrittenPart {
  // Outlives the part.
  const PlannedWrite* write = nullptr;
  // 0 for the prompt, t for the t-th generated token.
  int step = 0;
  // Absolute, in the selection's order.
  std::vector<int64_t> positions;
  // Line of the matrix, or query of the block, of each position.
  std::vector<int64_t> lines;
  // Index of each position among those that the selection has in the prompt;
  // {0} in a step.
  std::vector<int64_t> kept;
  // How many those are; 1 in a step.
  int64_t selected_count = 0;
  // Keys that the value has for the part's queries where the selection names
  // none: the prompt's tokens, in a step those up to its own.
  int64_t key_count = 0;
};

// The parts that a row's lines, or a block's queries, have of a write; none
// where it does not apply there.
std::vector<WrittenPart> PartsOf(const PlannedWrite& write,
                                 const TokenLayout::Row& row,
                                 const RunSequence& sequence);
std::vector<WrittenPart> PartsOf(const PlannedWrite& write,
                                 const PatternBlock& block,
                                 const RunSequence& sequence);

// Index of the positions (or queries) in a part.
int64_t PositionDimension(Hook hook);

// What belongs to the part of a value that broadcasts to everything the write
// selects: `value` itself but where it has all the selected positions and the
// part has not. Not for values that do not broadcast to the part (a weight).
at::Tensor KeptOf(const at::Tensor& value, const WrittenPart& part);

}  // namespace phitap

#endif  // PHITAP_SERVER_TRACE_WRITTEN_PART_H_
