// What a trace gave back.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CPP_TRACE_H_
#define PHITAP_CLIENT_CPP_TRACE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "phitap/v1/tensor.pb.h"
#include "phitap/v1/trace.pb.h"
#include "server/base/host_tensor.h"

namespace phitap::client {

// A token that a run went on with.
struct GeneratedToken {
  int32_t id = 0;
  // Text that it completes: whole UTF-8 characters, possibly none.
  std::string text;
  // Before temperature, top-k and top-p.
  double log_probability = 0;
};

// One prompt, as the server read it, and what followed.
struct TracedRun {
  std::string label;
  std::vector<int32_t> ids;
  // Text of each id; empty where the checkpoint has no tokenizer.
  std::vector<std::string> texts;
  // Those of the steps from 1 on.
  std::vector<GeneratedToken> generated;
  // How it ended; code 0 is OK. A failed run has no tensors. `finish_reason`
  // says why generation ended.
  v1::RunStatus status;
};

// The text of all generated tokens.
std::string GeneratedText(const TracedRun& run);

struct TracedTensor {
  v1::TensorDescriptor descriptor;
  HostTensor value;
};

// What tells tensors of a trace apart; an empty or unset field matches any.
struct TensorKey {
  std::string label;
  std::string run;
  // Full name, e.g. `layers.5.self_attn.attention_queries`.
  std::string hook_point;
  std::string part;
  // Generation step: 0 is the prompt.
  std::optional<int32_t> step;
};

// A complete answer: every tensor has its announced size and checksum, and the
// server has closed the stream with its summary.
struct Trace {
  v1::TraceHeader header;
  // In the order of the request.
  std::vector<TracedRun> runs;
  // In the order of the request's captures.
  std::vector<TracedTensor> tensors;
  // Of a sweep, those that failed, by the sweep's label and the cell's indices.
  std::vector<v1::RunStatus> failed_cells;
  v1::TraceSummary summary;

  // The one tensor that matches. NOT_FOUND lists what there is;
  // INVALID_ARGUMENT where several match. Points into this trace.
  absl::StatusOr<const TracedTensor*> Find(const TensorKey& key) const;

  // Every tensor that matches, in order.
  std::vector<const TracedTensor*> FindAll(const TensorKey& key) const;

  // Null where no run has that label.
  const TracedRun* FindRun(absl::string_view label) const;
  TracedRun* FindRun(absl::string_view label);

  // Whether that run failed; empty: any run, or any cell of a sweep.
  bool AnyFailed(absl::string_view run = "") const;
};

}  // namespace phitap::client

#endif  // PHITAP_CLIENT_CPP_TRACE_H_
