// SPDX-License-Identifier: Apache-2.0
#include "server/trace/written_part.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "server/spec/dimension.h"
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

}  // namespace

int64_t PositionDimension(Hook hook) {
  const std::vector<Dimension>& dimensions = EntryOf(hook).dimensions;
  const auto at = std::find_if(
      dimensions.begin(), dimensions.end(), [](Dimension dimension) {
        return dimension == Dimension::kSeq || dimension == Dimension::kQuery;
      });
  return at - dimensions.begin();
}

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

}  // namespace phitap
