// The tensors of a trace by what asked for them.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CLI_TRACED_GROUPS_H_
#define PHITAP_CLIENT_CLI_TRACED_GROUPS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/cli/merged_steps.h"
#include "client/cpp/trace.h"
#include "phitap/v1/trace.pb.h"

namespace phitap::cli {

// What one capture read in one run, in order; its generated tokens are a group
// of their own, unless a view can show both (see MergeSteps), as are a node, a
// gradient and a sweep. Points into trace and request.
struct TracedGroup {
  // The label and, where it is of one, the run.
  std::string title;
  // Null for gradients and sweeps, and where values of generated tokens are not
  // those of the prompt that the capture's views are made for.
  const v1::Capture* capture = nullptr;
  // Null for what is not of one run.
  const client::TracedRun* run = nullptr;
  std::vector<const client::TracedTensor*> tensors;
  // Owns run and tensors where they are not the trace's own.
  std::shared_ptr<const MergedSteps> merged;

  // Those of one part of its reduction.
  std::vector<const client::TracedTensor*> Part(absl::string_view part) const;
  // The positions that rows of the `seq` dimension stand for.
  std::vector<int64_t> Positions() const;
  // A position's token as TokenText shows it, or its id.
  std::string TokenAt(int64_t position) const;
};

// Needs captures whose labels tell them apart, as ReadTraceFlags makes them.
std::vector<TracedGroup> GroupTensors(const client::Trace& trace,
                                      const v1::TraceRequest& request);

// Gives captures that the user did not name back their default label, the hook
// point's full name; where two captures read the same one, the later keeps its
// own text.
void RestoreDefaultLabels(const v1::TraceRequest& request,
                          const std::vector<bool>& is_named,
                          const std::vector<v1::TensorDescriptor*>& tensors);

// What ids are called.
class TokenNames {
 public:
  TokenNames() = default;
  explicit TokenNames(std::map<int32_t, std::string> texts)
      : texts_(std::move(texts)) {}

  // As TokenText shows it; `#7` where the text is not known.
  std::string Of(int32_t id) const;

 private:
  std::map<int32_t, std::string> texts_;
};

}  // namespace phitap::cli

#endif  // PHITAP_CLIENT_CLI_TRACED_GROUPS_H_
