// Where a planned write meets a value of a forward, and how the part is taken
// and put back.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_TRACE_EDIT_H_
#define PHITAP_SERVER_TRACE_EDIT_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <utility>
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

// What belongs to the part of a value that broadcasts to everything the write
// selects: `value` itself but where it has all the selected positions and the
// part has not. Not for values that do not broadcast to the part (a weight).
at::Tensor KeptOf(const at::Tensor& value, const WrittenPart& part);

// A [T, …] value of a forward on its way through the writes of one visit.
class EditedMatrix {
 public:
  explicit EditedMatrix(at::Tensor value) : value_(std::move(value)) {}

  // The part as it stands, laid out as a capture of it, in the value's type: a
  // copy, which later writes leave alone.
  at::Tensor Take(const WrittenPart& part) const;
  // Sets the part to `value`, which broadcasts to it (or to everything that the
  // write selects), rounded once to the value's type. `condition`, where it is
  // defined, is one number or one a position; where it is 0 the part stays.
  // The first write copies the whole value, later ones write in the copy; what
  // is not selected keeps its bits. libtorch can differentiate it.
  void Put(const WrittenPart& part, const at::Tensor& value,
           const at::Tensor& condition = {});
  // As it stands: the shape, type and strides that it came with.
  const at::Tensor& value() const { return value_; }

 private:
  // What Take copies: a view where possible, good until the next write.
  at::Tensor View(const WrittenPart& part) const;

  at::Tensor value_;
  bool copied_ = false;
};

// The same for a block [H, queries, keys] of scores or probabilities. A part
// has every key that the write selects: those past the block's are as
// invisible ones. Entries that their query does not see keep their bits.
class EditedPattern {
 public:
  explicit EditedPattern(at::Tensor value) : value_(std::move(value)) {}

  at::Tensor Take(const WrittenPart& part) const;
  void Put(const WrittenPart& part, const RunSequence& sequence,
           const at::Tensor& value, const at::Tensor& condition = {});
  const at::Tensor& value() const { return value_; }

 private:
  at::Tensor View(const WrittenPart& part) const;

  at::Tensor value_;
  bool copied_ = false;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_TRACE_EDIT_H_
