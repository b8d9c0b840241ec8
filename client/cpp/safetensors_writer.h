// Writes traces as safetensors files, readable by every library of that format.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CPP_SAFETENSORS_WRITER_H_
#define PHITAP_CLIENT_CPP_SAFETENSORS_WRITER_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cpp/trace.h"

namespace phitap::client {

struct NamedTensor {
  std::string name;
  HostTensor value;
};

// Name of each tensor of a trace, in order, by a rule that needs no look at
// the file:
//   [RUN/]NAME[/PART][/step-STEP]
// NAME is the capture's label if it has one of its own, else the hook point's
// full name; a label that covers several hook points is followed by `/` and
// the hook point. RUN is there if the trace has more than one run and the
// tensor is of one, PART if the reduction or sweep makes several tensors, STEP
// if it was read at a generated token: `layers.3.layer_output`,
// `0/lens/layers.3.layer_output/indices`, `logits/step-4`. INVALID_ARGUMENT
// where labels make two names equal.
absl::StatusOr<std::vector<std::string>> TensorNames(const Trace& trace);

// A file with these tensors, in order, under a string-to-string `__metadata__`.
// Written beside `path` and renamed, so that `path` is never half a file.
absl::Status WriteSafetensors(
    absl::string_view path, const std::vector<NamedTensor>& tensors,
    const std::map<std::string, std::string>& metadata);

// The same for a whole trace; metadata: `format`, `model`, `weights_digest`,
// `numerics`, `attention`, `numerics_fingerprint`, `request_id`, and `runs`, a
// JSON list of {label, ids, texts, generated_ids}.
absl::Status WriteTrace(absl::string_view path, const Trace& trace);

}  // namespace phitap::client

#endif  // PHITAP_CLIENT_CPP_SAFETENSORS_WRITER_H_
