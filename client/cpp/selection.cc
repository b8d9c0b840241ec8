#include "client/cpp/selection.h"

namespace phitap::client {

v1::IndexSet Indices(absl::Span<const int32_t> indices) {
  v1::IndexSet set;
  set.mutable_indices()->Add(indices.begin(), indices.end());
  return set;
}

v1::IndexSet IndicesFrom(int32_t start, int32_t stop) {
  v1::IndexSet set;
  v1::IndexRange* range = set.add_ranges();
  range->set_start(start);
  range->set_stop(stop);
  return set;
}

std::optional<v1::Selection> ToMessage(const Selection& selection) {
  v1::Selection message;
  if (selection.positions) *message.mutable_positions() = *selection.positions;
  message.mutable_token_ids()->Add(selection.token_ids.begin(),
                                   selection.token_ids.end());
  if (selection.heads) *message.mutable_heads() = *selection.heads;
  if (selection.features) *message.mutable_features() = *selection.features;
  if (selection.queries) *message.mutable_queries() = *selection.queries;
  if (selection.keys) *message.mutable_keys() = *selection.keys;
  if (selection.steps) *message.mutable_steps() = *selection.steps;
  if (message.ByteSizeLong() == 0) return std::nullopt;
  return message;
}

}  // namespace phitap::client
