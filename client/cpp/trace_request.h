// Requests to trace, written down shortly.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CPP_TRACE_REQUEST_H_
#define PHITAP_CLIENT_CPP_TRACE_REQUEST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "phitap/v1/selection.pb.h"
#include "phitap/v1/trace.pb.h"

namespace phitap::client {

// Single indices; negative ones count from the end.
v1::IndexSet Indices(absl::Span<const int32_t> indices);
// [start, stop).
v1::IndexSet IndicesFrom(int32_t start, int32_t stop);

v1::Run TextRun(absl::string_view text, absl::string_view label = "");
v1::Run TokensRun(absl::Span<const int32_t> ids, absl::string_view label = "");
v1::Run ChatRun(const v1::Chat& chat, absl::string_view label = "");

// What the server makes of a value before it sends it.
struct WholeValue {};
struct PositionMean {};
struct LastDimensionNorm {};
struct Largest {
  int32_t k = 1;
};
struct Lens {
  int32_t k = 1;
  // Tokens whose probability and rank to return as well.
  std::vector<int32_t> token_ids;
  // Whether the value has been through the final norm already.
  bool value_is_normed = false;
};
using Reduce =
    std::variant<WholeValue, PositionMean, LastDimensionNorm, Largest, Lens>;

// A value to read: `{.hook_points = "layers.*.layer_output"}`. Unset parts of
// the selection mean all.
struct Read {
  std::string hook_points;
  // Name in the answer; default the hook point's full name.
  std::string label;
  // Labels of runs; empty means all.
  std::vector<std::string> runs;
  std::optional<v1::IndexSet> positions;
  // Positions of these tokens, instead of `positions`.
  std::vector<int32_t> token_ids;
  std::optional<v1::IndexSet> heads;
  std::optional<v1::IndexSet> features;
  std::optional<v1::IndexSet> queries;
  std::optional<v1::IndexSet> keys;
  std::optional<Reduce> reduce;
  // Element type on the wire; unspecified means as computed.
  v1::DataType dtype = v1::DATA_TYPE_UNSPECIFIED;
};

// A whole trace.
struct TraceCall {
  // May be empty where the server holds one model.
  std::string model;
  std::vector<v1::Run> runs;
  std::vector<Read> captures;
  v1::TraceOptions options;
};

v1::Capture ToCapture(const Read& read);
v1::TraceRequest ToRequest(const TraceCall& call);

}  // namespace phitap::client

#endif  // PHITAP_CLIENT_CPP_TRACE_REQUEST_H_
