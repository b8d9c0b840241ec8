// The flags that `plan` and `trace` share: prompts, captures, choices.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CLI_TRACE_FLAGS_H_
#define PHITAP_CLIENT_CLI_TRACE_FLAGS_H_

#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "client/cpp/trace_request.h"

namespace phitap::cli {

struct TraceFlags {
  std::string model;
  std::vector<std::string> prompts;
  std::vector<std::string> tokens;
  std::vector<std::string> chat_files;
  // Of every prompt; empty where not given.
  std::string hidden_positions;
  std::string position_ids;
  std::vector<std::string> captures;
  // Options for every capture: name and value.
  std::vector<std::pair<std::string, std::string>> capture_options;
  std::string numerics;
  std::string attention;
  bool isolate = false;
};

// `flags` must outlive `command`.
void AddTraceFlags(CLI::App* command, TraceFlags* flags);

// What the flags ask for.
struct TraceInput {
  client::TraceCall call;
  // For each capture, whether the user gave it a name. The others are sent
  // under their own text, so that tensors can be told apart.
  std::vector<bool> is_named;
};

// INVALID_ARGUMENT or NOT_FOUND against the flag at fault.
absl::StatusOr<TraceInput> ReadTraceFlags(const TraceFlags& flags);

}  // namespace phitap::cli

#endif  // PHITAP_CLIENT_CLI_TRACE_FLAGS_H_
