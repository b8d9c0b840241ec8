// Requests to trace, written down shortly.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CPP_TRACE_REQUEST_H_
#define PHITAP_CLIENT_CPP_TRACE_REQUEST_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "client/cpp/edit.h"
#include "client/cpp/metric.h"
#include "client/cpp/program.h"
#include "client/cpp/run.h"
#include "client/cpp/selection.h"
#include "client/cpp/sweep.h"
#include "phitap/v1/trace.pb.h"

namespace phitap::client {

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

// A value to read: `{.hook_points = "layers.*.layer_output"}`, or a node of
// the program: `{.node = "norm"}`.
struct Read {
  std::string hook_points;
  // Name in the answer; default the hook point's full name.
  std::string label;
  // Labels of runs; empty means all.
  std::vector<std::string> runs;
  Selection selection;
  // Unspecified means after the interventions there.
  v1::ReadTime read_time = v1::READ_TIME_UNSPECIFIED;
  std::optional<Reduce> reduce;
  // Element type on the wire; unspecified means as computed.
  v1::DataType dtype = v1::DATA_TYPE_UNSPECIFIED;
  // Keep it on the server under this name instead of sending it.
  std::string keep_as;
  // Instead of `hook_points`.
  std::string node;
};

// A whole trace.
struct TraceCall {
  // May be empty where the server holds one model.
  std::string model;
  std::vector<v1::Run> runs;
  std::vector<Read> captures;
  // Tensors that edits and nodes name, sent once.
  std::map<std::string, HostTensor> constants;
  std::vector<Node> program;
  std::vector<Gradient> gradients;
  std::vector<Sweep> sweeps;
  v1::TraceOptions options;
};

v1::Capture ToCapture(const Read& read);
v1::TraceRequest ToRequest(const TraceCall& call);

}  // namespace phitap::client

#endif  // PHITAP_CLIENT_CPP_TRACE_REQUEST_H_
