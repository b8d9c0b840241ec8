// SPDX-License-Identifier: Apache-2.0
#include "server/trace/edit.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/where.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>

#include "server/model/visibility.h"
#include "server/spec/dimension.h"
#include "server/trace/place_part.h"
#include "server/trace/select.h"

namespace phitap {
namespace {

// Same shape, type and strides, other memory.
at::Tensor CopyWithStrides(const at::Tensor& value) {
  at::Tensor copy =
      at::empty_strided(value.sizes(), value.strides(), value.options());
  copy.copy_(value);
  return copy;
}

// `part` on its own, contiguous: copied only where it still shows `whole`.
at::Tensor CopyOutOf(const at::Tensor& whole, const at::Tensor& part) {
  return part.is_alias_of(whole) ? part.clone(at::MemoryFormat::Contiguous)
                                 : part.contiguous();
}

// Whether the edit is made, so that it broadcasts to the part: one truth or one
// a position.
at::Tensor Decision(const WrittenPart& part, const at::Tensor& condition,
                    int64_t rank) {
  at::Tensor truths = (condition != 0).reshape({-1});
  if (truths.numel() == 1) return truths;
  const auto count = static_cast<int64_t>(part.positions.size());
  if (truths.numel() != count && truths.numel() == part.selected_count) {
    truths = Pick(truths, 0, part.kept);
  }
  TORCH_CHECK_VALUE(truths.numel() == count, part.write->field,
                    ".when: a condition of ", condition.sizes(), " for ", count,
                    " positions");
  std::vector<int64_t> shape(rank, 1);
  shape[PositionDimension(part.write->point.hook)] = count;
  return truths.view(shape);
}

// `value` as the part has it, where the condition holds.
at::Tensor Edited(const WrittenPart& part, const at::Tensor& current,
                  const at::Tensor& value, const at::Tensor& decision) {
  const at::Tensor edited =
      KeptOf(value, part).to(current.scalar_type()).expand(current.sizes());
  return decision.defined() ? at::where(decision, edited, current) : edited;
}

bool HaveSameBits(const at::Tensor& a, const at::Tensor& b) {
  const at::ScalarType bits = a.element_size() == 2   ? at::kShort
                              : a.element_size() == 4 ? at::kInt
                                                      : at::kLong;
  return at::equal(a.view(bits), b.view(bits));
}

double InvisibleEntry(Hook hook) {
  return hook == Hook::kAttentionScores
             ? -std::numeric_limits<double>::infinity()
             : 0.0;
}

// Which of the part's keys its queries see: bool [queries, keys].
at::Tensor VisibleEntries(const WrittenPart& part, const RunSequence& sequence,
                          const std::vector<int64_t>& keys) {
  const Visibility visibility(sequence.window, sequence.hidden_positions);
  at::Tensor visible = at::empty({static_cast<int64_t>(part.positions.size()),
                                  static_cast<int64_t>(keys.size())},
                                 at::TensorOptions(at::kBool));
  bool* out = visible.mutable_data_ptr<bool>();
  for (const int64_t query : part.positions) {
    for (const int64_t key : keys) *out++ = visibility.Sees(query, key);
  }
  return visible;
}

std::vector<int64_t> SelectedKeys(const WrittenPart& part) {
  const ResolvedSelection& selection = part.write->selection;
  if (selection.keys.has_value()) return *selection.keys;
  std::vector<int64_t> all(part.key_count);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

}  // namespace

at::Tensor EditedMatrix::View(const WrittenPart& part) const {
  return SelectLines(value_, part.lines, part.write->point.hook,
                     part.write->selection);
}

at::Tensor EditedMatrix::Take(const WrittenPart& part) const {
  return CopyOutOf(value_, View(part));
}

bool EditedMatrix::Put(const WrittenPart& part, const at::Tensor& value,
                       const at::Tensor& condition, SameBits same_bits) {
  const Hook hook = part.write->point.hook;
  const at::Tensor current = View(part);
  at::Tensor decision;
  if (condition.defined()) {
    decision = Decision(part, condition, current.dim());
    if (!decision.any().item<bool>()) return false;
  }
  at::Tensor edited = Edited(part, current, value, decision);
  if (same_bits == SameBits::kLeave && HaveSameBits(edited, current)) {
    return false;
  }
  const ResolvedSelection& selection = part.write->selection;
  PartIndices indices = {part.lines};
  if (value_.dim() == 3) indices.push_back(selection.heads);
  if (value_.dim() > 1) indices.push_back(selection.features);
  if (!copied_) value_ = CopyWithStrides(value_);
  copied_ = true;
  PlacePart(value_, indices, edited.transpose(0, PositionDimension(hook)));
  return true;
}

at::Tensor EditedPattern::View(const WrittenPart& part) const {
  const ResolvedSelection& selection = part.write->selection;
  at::Tensor taken = Pick(value_, 1, part.lines);
  if (selection.heads.has_value()) taken = Pick(taken, 0, *selection.heads);
  const int64_t seen = std::min(taken.size(2), part.key_count);
  taken = taken.narrow(2, 0, seen);
  if (seen < part.key_count) {
    const at::Tensor padded =
        at::full({taken.size(0), taken.size(1), part.key_count},
                 InvisibleEntry(part.write->point.hook), taken.options());
    padded.narrow(2, 0, seen).copy_(taken);
    taken = padded;
  }
  if (selection.keys.has_value()) taken = Pick(taken, 2, *selection.keys);
  return taken;
}

at::Tensor EditedPattern::Take(const WrittenPart& part) const {
  return CopyOutOf(value_, View(part));
}

bool EditedPattern::Put(const WrittenPart& part, const RunSequence& sequence,
                        const at::Tensor& value, const at::Tensor& condition,
                        SameBits same_bits) {
  const std::vector<int64_t> keys = SelectedKeys(part);
  const at::Tensor current = View(part);
  at::Tensor decision = VisibleEntries(part, sequence, keys);
  if (condition.defined()) {
    decision = decision.logical_and(Decision(part, condition, current.dim()));
  }
  if (!decision.any().item<bool>()) return false;
  const at::Tensor edited = Edited(part, current, value, decision);
  if (same_bits == SameBits::kLeave && HaveSameBits(edited, current)) {
    return false;
  }

  std::vector<int64_t> held;  // keys that the block has
  std::vector<int64_t> from;  // and where the part has them
  for (size_t i = 0; i < keys.size(); ++i) {
    if (keys[i] >= value_.size(2)) continue;
    held.push_back(keys[i]);
    from.push_back(static_cast<int64_t>(i));
  }
  if (!copied_) value_ = CopyWithStrides(value_);
  copied_ = true;
  PlacePart(value_, {part.write->selection.heads, part.lines, held},
            Pick(edited, 2, from));
  return true;
}

}  // namespace phitap
