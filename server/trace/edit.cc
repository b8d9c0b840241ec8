// SPDX-License-Identifier: Apache-2.0
#include "server/trace/edit.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
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

// The lines that a matrix or block holds: where each position's is.
struct HeldLines {
  absl::Span<const int64_t> positions;  // ascending
  int64_t begin = 0;

  // −1 where it holds none.
  int64_t LineOf(int64_t position) const {
    const auto at =
        std::lower_bound(positions.begin(), positions.end(), position);
    if (at == positions.end() || *at != position) return -1;
    return begin + (at - positions.begin());
  }
};

bool Applies(const StepSelection& steps, int step, int32_t token_id) {
  const bool selected =
      steps.every_step ||
      std::binary_search(steps.steps.begin(), steps.steps.end(), step);
  return selected && (steps.token_ids.empty() ||
                      std::binary_search(steps.token_ids.begin(),
                                         steps.token_ids.end(), token_id));
}

const std::optional<std::vector<int64_t>>& PositionsOf(
    const PlannedWrite& write) {
  return SeqDimension(write.point.hook) >= 0 ? write.selection.positions
                                             : write.selection.queries;
}

// What the lines have of the prompt.
WrittenPart PromptPart(const PlannedWrite& write, const HeldLines& held,
                       const RunSequence& sequence) {
  std::vector<int64_t> selected(sequence.prompt_length);
  if (PositionsOf(write).has_value()) {
    selected = *PositionsOf(write);
  } else {
    std::iota(selected.begin(), selected.end(), 0);
  }
  WrittenPart part{.write = &write,
                   .selected_count = static_cast<int64_t>(selected.size()),
                   .key_count = sequence.prompt_length};
  for (int64_t i = 0; i < part.selected_count; ++i) {
    const int64_t line = held.LineOf(selected[i]);
    if (line < 0) continue;
    part.positions.push_back(selected[i]);
    part.lines.push_back(line);
    part.kept.push_back(i);
  }
  return part;
}

std::vector<WrittenPart> PartsOfLines(const PlannedWrite& write,
                                      const HeldLines& held,
                                      const RunSequence& sequence) {
  std::vector<WrittenPart> parts;
  if (write.steps.prompt) {
    WrittenPart part = PromptPart(write, held, sequence);
    if (!part.lines.empty()) parts.push_back(std::move(part));
  }
  const auto first_generated = std::lower_bound(
      held.positions.begin(), held.positions.end(), sequence.prompt_length);
  for (auto at = first_generated; at != held.positions.end(); ++at) {
    const int64_t position = *at;
    const int step = static_cast<int>(position - sequence.prompt_length + 1);
    if (!Applies(write.steps, step, sequence.ids[position])) continue;
    parts.push_back({.write = &write,
                     .step = step,
                     .positions = {position},
                     .lines = {held.LineOf(position)},
                     .kept = {0},
                     .selected_count = 1,
                     .key_count = position + 1});
  }
  return parts;
}

// Index of the positions (or queries) in a part.
int64_t PositionDimension(Hook hook) {
  const std::vector<Dimension>& dimensions = EntryOf(hook).dimensions;
  const auto at = std::find_if(
      dimensions.begin(), dimensions.end(), [](Dimension dimension) {
        return dimension == Dimension::kSeq || dimension == Dimension::kQuery;
      });
  return at - dimensions.begin();
}

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

std::vector<WrittenPart> PartsOf(const PlannedWrite& write,
                                 const TokenLayout::Row& row,
                                 const RunSequence& sequence) {
  return PartsOfLines(write, {.positions = row.positions, .begin = row.begin},
                      sequence);
}

std::vector<WrittenPart> PartsOf(const PlannedWrite& write,
                                 const PatternBlock& block,
                                 const RunSequence& sequence) {
  std::vector<int64_t> queries(block.query_count);
  std::iota(queries.begin(), queries.end(), block.first_query);
  return PartsOfLines(write, {.positions = queries}, sequence);
}

at::Tensor KeptOf(const at::Tensor& value, const WrittenPart& part) {
  const Hook hook = part.write->point.hook;
  const auto rank = static_cast<int64_t>(EntryOf(hook).dimensions.size());
  const int64_t dimension = value.dim() - rank + PositionDimension(hook);
  const auto count = static_cast<int64_t>(part.kept.size());
  if (dimension < 0 || value.size(dimension) != part.selected_count ||
      count == part.selected_count) {
    return value;
  }
  return Pick(value, dimension, part.kept);
}

at::Tensor EditedMatrix::View(const WrittenPart& part) const {
  return SelectLines(value_, part.lines, part.write->point.hook,
                     part.write->selection);
}

at::Tensor EditedMatrix::Take(const WrittenPart& part) const {
  return CopyOutOf(value_, View(part));
}

void EditedMatrix::Put(const WrittenPart& part, const at::Tensor& value,
                       const at::Tensor& condition) {
  const Hook hook = part.write->point.hook;
  const at::Tensor current = View(part);
  at::Tensor decision;
  if (condition.defined()) {
    decision = Decision(part, condition, current.dim());
    if (!decision.any().item<bool>()) return;
  }
  at::Tensor edited = Edited(part, current, value, decision);
  const ResolvedSelection& selection = part.write->selection;
  PartIndices indices = {part.lines};
  if (value_.dim() == 3) indices.push_back(selection.heads);
  if (value_.dim() > 1) indices.push_back(selection.features);
  if (!copied_) value_ = CopyWithStrides(value_);
  copied_ = true;
  PlacePart(value_, indices, edited.transpose(0, PositionDimension(hook)));
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

void EditedPattern::Put(const WrittenPart& part, const RunSequence& sequence,
                        const at::Tensor& value, const at::Tensor& condition) {
  const std::vector<int64_t> keys = SelectedKeys(part);
  const at::Tensor current = View(part);
  at::Tensor decision = VisibleEntries(part, sequence, keys);
  if (condition.defined()) {
    decision = decision.logical_and(Decision(part, condition, current.dim()));
  }
  if (!decision.any().item<bool>()) return;
  const at::Tensor edited = Edited(part, current, value, decision);

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
}

}  // namespace phitap
