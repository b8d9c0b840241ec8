// The flags that `plan` and `trace` share: prompts, edits, captures,
// generation. SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CLI_TRACE_FLAGS_H_
#define PHITAP_CLIENT_CLI_TRACE_FLAGS_H_

#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "client/cli/generation_flags.h"
#include "client/cli/run_flags.h"
#include "phitap/v1/trace.pb.h"

namespace phitap::cli {

struct TraceFlags {
  RunFlags runs;
  GenerationFlags generation;
  // Where the request begins; the flags add to it.
  std::string request_file;
  std::vector<std::string> captures;
  // Options for every capture: name and value.
  std::vector<std::pair<std::string, std::string>> capture_options;
};

// `flags` must outlive `command`.
void AddTraceFlags(CLI::App* command, TraceFlags* flags);

// What the flags ask for.
struct TraceInput {
  v1::TraceRequest request;
  // For each capture, whether the user gave it a name. The others are sent
  // under their own text, so that tensors can be told apart.
  std::vector<bool> is_named;
};

// INVALID_ARGUMENT or NOT_FOUND against the flag at fault.
absl::StatusOr<TraceInput> ReadTraceFlags(const TraceFlags& flags);

}  // namespace phitap::cli

#endif  // PHITAP_CLIENT_CLI_TRACE_FLAGS_H_
