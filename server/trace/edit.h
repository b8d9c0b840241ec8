// How the part of a value that a write selects is taken and put back.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_SERVER_TRACE_EDIT_H_
#define PHITAP_SERVER_TRACE_EDIT_H_

#include <ATen/core/Tensor.h>

#include <utility>

#include "server/trace/written_part.h"

namespace phitap {

// What to do with a part that already has the bits that it is set to.
enum class SameBits { kWrite, kLeave };

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
  // is not selected keeps its bits. libtorch can differentiate it. Returns
  // whether it has written anything.
  bool Put(const WrittenPart& part, const at::Tensor& value,
           const at::Tensor& condition = {},
           SameBits same_bits = SameBits::kWrite);
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
  bool Put(const WrittenPart& part, const RunSequence& sequence,
           const at::Tensor& value, const at::Tensor& condition = {},
           SameBits same_bits = SameBits::kWrite);
  const at::Tensor& value() const { return value_; }

 private:
  at::Tensor View(const WrittenPart& part) const;

  at::Tensor value_;
  bool copied_ = false;
};

}  // namespace phitap

#endif  // PHITAP_SERVER_TRACE_EDIT_H_
