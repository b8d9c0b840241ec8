// How runs go on after their prompts.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CLI_GENERATION_FLAGS_H_
#define PHITAP_CLIENT_CLI_GENERATION_FLAGS_H_

#include <cstdint>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "client/cpp/run.h"

namespace phitap::cli {

struct GenerationFlags {
  // 0 means none.
  int32_t max_tokens = 0;
  double temperature = 0;
  int32_t top_k = 0;
  // 0 means not given.
  double top_p = 0;
  uint64_t seed = 0;
  std::string stop_ids;
  bool ignore_stop_ids = false;
  std::string forced_ids;
};

// `flags` must outlive `command`.
void AddGenerationFlags(CLI::App* command, GenerationFlags* flags);

// INVALID_ARGUMENT against the flag at fault.
absl::StatusOr<client::Generate> ReadGeneration(const GenerationFlags& flags);

}  // namespace phitap::cli

#endif  // PHITAP_CLIENT_CLI_GENERATION_FLAGS_H_
