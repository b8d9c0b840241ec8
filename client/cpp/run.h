// Runs, written shortly: a prompt, its edits, and how it goes on.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CPP_RUN_H_
#define PHITAP_CLIENT_CPP_RUN_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/cpp/edit.h"
#include "phitap/v1/trace.pb.h"

namespace phitap::client {

v1::Run TextRun(absl::string_view text, absl::string_view label = "");
v1::Run TokensRun(absl::Span<const int32_t> ids, absl::string_view label = "");
v1::Run ChatRun(const v1::Chat& chat, absl::string_view label = "");
// The tokens of another run of the request.
v1::Run SameRun(absl::string_view as, absl::string_view label = "");

// The run with these edits after those that it has.
v1::Run Edited(v1::Run run, absl::Span<const Edit> edits);

struct Generate {
  int32_t max_tokens = 1;
  // 0 takes the likeliest token.
  double temperature = 0;
  // 0 means all.
  int32_t top_k = 0;
  std::optional<double> top_p;
  uint64_t seed = 0;
  // Empty means the checkpoint's.
  std::vector<int32_t> stop_ids;
  bool ignore_stop_ids = false;
  // Tokens to go on with instead of the generated ones, from the first on.
  std::vector<int32_t> forced_ids;
};

v1::Generation ToMessage(const Generate& generate);

// The run, which goes on after its prompt.
v1::Run Generating(v1::Run run, const Generate& generate);

}  // namespace phitap::client

#endif  // PHITAP_CLIENT_CPP_RUN_H_
