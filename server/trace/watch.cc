// SPDX-License-Identifier: Apache-2.0
#include "server/trace/watch.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "server/trace/select.h"

namespace phitap {
namespace {

using Positions = std::optional<std::vector<int64_t>>;

// In a pass after the prompt's a value is its own token's alone.
std::shared_ptr<const ResolvedSelection> SelectionIn(
    const RunPass& pass, Hook hook, const ResolvedSelection& selection) {
  if (pass.step == 0) return {pass.wave_run.plan, &selection};
  auto own = std::make_shared<ResolvedSelection>(selection);
  own->positions.reset();
  if (IsPattern(hook)) own->queries = {pass.own_position()};
  if (SeqDimension(hook) >= 0) own->positions = {pass.own_position()};
  return own;
}

// Where the value is shown that a run has one of.
RowStretch StretchOfOne(const Watch& watch, HookPoint read_at,
                        const RunPass& pass, const PassRows& rows) {
  if (watch.point.hook == Hook::kNextTokenProbs) {
    return rows.StretchesOf(watch.run, read_at, pass.token_count()).front();
  }
  return rows.StretchesOf(watch.run, read_at, 1).back();
}

// Indices of the positions that are in the stretch.
std::vector<int64_t> PlacesIn(const RowStretch& stretch,
                              const std::vector<int64_t>& positions) {
  std::vector<int64_t> places;
  for (size_t i = 0; i < positions.size(); ++i) {
    if (stretch.begin <= positions[i] && positions[i] < stretch.end) {
      places.push_back(static_cast<int64_t>(i));
    }
  }
  return places;
}

std::vector<int64_t> AllPositions(const RunPass& pass) {
  std::vector<int64_t> all(pass.token_count());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// The same with the positions at `places` alone.
std::shared_ptr<const ResolvedSelection> PartOf(
    const ResolvedSelection& selection, const std::vector<int64_t>& positions,
    const std::vector<int64_t>& places) {
  auto part = std::make_shared<ResolvedSelection>(selection);
  std::vector<int64_t>& kept = part->positions.emplace();
  for (const int64_t place : places) kept.push_back(positions[place]);
  return part;
}

}  // namespace

std::vector<PlacedWatch> PlaceWatch(const Watch& watch, HookPoint read_at,
                                    const ResolvedSelection& selection,
                                    const RunPass& pass, const PassRows& rows) {
  const Hook hook = watch.point.hook;
  const bool pattern = IsPattern(hook);
  RowWatch whole{.watch = watch,
                 .selection = SelectionIn(pass, hook, selection)};
  const auto placed = [&](const RowStretch& stretch) {
    PlacedWatch at{.row = stretch.row, .watch = whole};
    at.watch.begin = stretch.begin;
    at.watch.end = stretch.end;
    return at;
  };
  if (!pattern && SeqDimension(hook) < 0) {
    return {placed(StretchOfOne(watch, read_at, pass, rows))};
  }
  if (pattern) {
    whole.pattern = std::make_shared<PatternCapture>(hook, *whole.selection,
                                                     pass.token_count());
  }
  const std::vector<RowStretch> stretches =
      rows.StretchesOf(watch.run, read_at, pass.token_count());
  const Positions& asked =
      pattern ? whole.selection->queries : whole.selection->positions;
  if (stretches.size() == 1 && stretches.front().row >= 0 &&
      (asked.has_value() ||
       rows[stretches.front().row].end_position() == pass.token_count())) {
    return {placed(stretches.front())};
  }
  const std::vector<int64_t> positions = asked.value_or(AllPositions(pass));
  const auto count = static_cast<int64_t>(positions.size());
  std::vector<PlacedWatch> parts;
  for (const RowStretch& stretch : stretches) {
    std::vector<int64_t> places = PlacesIn(stretch, positions);
    if (places.empty()) continue;
    if (stretch.row < 0) return {{.row = -1, .watch = std::move(whole)}};
    parts.push_back(placed(stretch));
    if (pattern) continue;
    RowWatch& part = parts.back().watch;
    part.selection = PartOf(*whole.selection, positions, places);
    if (static_cast<int64_t>(places.size()) == count) continue;
    if (whole.whole == nullptr) {
      whole.whole = std::make_shared<GatheredValue>(count, SeqDimension(hook));
    }
    part.whole = whole.whole;
    part.places = std::move(places);
  }
  return parts;
}

namespace {

// What the stretch [begin, end) has of a block.
PatternBlock Clipped(const PatternBlock& block, int64_t begin, int64_t end) {
  const int64_t first = std::max(block.first_query, begin);
  const int64_t last = std::min(block.first_query + block.query_count, end);
  return {.row = block.row,
          .first_query = first,
          .query_count = std::max<int64_t>(0, last - first)};
}

}  // namespace

bool RowWatch::Wants(const PatternBlock& block) const {
  return pattern->Wants(Clipped(block, begin, end));
}

at::Tensor RowWatch::Take(const PatternBlock& block,
                          const at::Tensor& value) const {
  const PatternBlock own = Clipped(block, begin, end);
  if (!pattern->Wants(own)) return {};
  pattern->Add(own, value.narrow(1, own.first_query - block.first_query,
                                 own.query_count));
  return pattern->Complete() ? pattern->Take() : at::Tensor();
}

at::Tensor RowWatch::Take(const TokenLayout::Row& lines,
                          const at::Tensor& value) const {
  at::Tensor part = SelectRow(value, lines, watch.point.hook, *selection);
  if (whole == nullptr) return part;
  whole->Add(places, part);
  return whole->Complete() ? whole->Take() : at::Tensor();
}

}  // namespace phitap
