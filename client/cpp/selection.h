// Which part of a value a capture reads or an edit changes, written shortly.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CPP_SELECTION_H_
#define PHITAP_CLIENT_CPP_SELECTION_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "phitap/v1/selection.pb.h"

namespace phitap::client {

// Single indices; negative ones count from the end.
v1::IndexSet Indices(absl::Span<const int32_t> indices);
// [start, stop).
v1::IndexSet IndicesFrom(int32_t start, int32_t stop);

// Unset members mean all: `{.positions = Indices({-1})}`.
struct Selection {
  std::optional<v1::IndexSet> positions;
  // Positions of these tokens, instead of `positions`.
  std::vector<int32_t> token_ids;
  std::optional<v1::IndexSet> heads;
  std::optional<v1::IndexSet> features;
  std::optional<v1::IndexSet> queries;
  std::optional<v1::IndexSet> keys;
  // Generation steps: 0 is the prompt.
  std::optional<v1::IndexSet> steps;
};

// Unlike a set without indices, an unset one means all. Nothing where nothing
// is set.
std::optional<v1::Selection> ToMessage(const Selection& selection);

}  // namespace phitap::client

#endif  // PHITAP_CLIENT_CPP_SELECTION_H_
