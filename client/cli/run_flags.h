// The flags that every command that runs prompts has: prompts, edits, choices.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CLI_RUN_FLAGS_H_
#define PHITAP_CLIENT_CLI_RUN_FLAGS_H_

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "phitap/v1/trace.pb.h"

namespace phitap::cli {

struct RunFlags {
  std::string model;
  std::vector<std::string> prompts;
  std::vector<std::string> tokens;
  std::vector<std::string> chat_files;
  // LABEL=TEXT each.
  std::vector<std::string> labelled;
  // Of every prompt; empty where not given.
  std::string hidden_positions;
  std::string position_ids;
  std::vector<std::string> interventions;
  std::string numerics;
  std::string attention;
  std::string longrope_cache;
  bool isolate = false;
  int priority = 0;
};

// `flags` must outlive `command`.
void AddRunFlags(CLI::App* command, RunFlags* flags);

// Adds the runs, without their edits, and the options to a request. Labels of
// runs that have none are set to what the server would call them.
// INVALID_ARGUMENT or NOT_FOUND against the flag at fault.
absl::Status ReadRuns(const RunFlags& flags, v1::TraceRequest* request);

// An intervention and the runs that it is for, by index.
struct RunEdit {
  std::vector<int> runs;
  v1::Intervention edit;
};

// The interventions, for runs of this request, which has the prompts already;
// tensors of files become its constants. Those that name no run are for the
// last one. INVALID_ARGUMENT or NOT_FOUND points at what is wrong.
absl::StatusOr<std::vector<RunEdit>> ReadEdits(const RunFlags& flags,
                                               v1::TraceRequest* request);

}  // namespace phitap::cli

#endif  // PHITAP_CLIENT_CLI_RUN_FLAGS_H_
