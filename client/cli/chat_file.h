// Conversations from files.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CLI_CHAT_FILE_H_
#define PHITAP_CLIENT_CLI_CHAT_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "phitap/v1/trace.pb.h"

namespace phitap::cli {

// JSON: a list of {"role", "content", "tools"?}, or an object with that list
// as "messages" and optionally "add_generation_prompt". `tools` may be JSON
// text or JSON itself. INVALID_ARGUMENT against `field` otherwise.
absl::StatusOr<v1::Chat> ParseChat(absl::string_view text,
                                   absl::string_view field);

// The conversation in a file, or on standard input for `-`. NOT_FOUND where
// the file cannot be read.
absl::StatusOr<v1::Chat> ReadChatFile(const std::string& path);

}  // namespace phitap::cli

#endif  // PHITAP_CLIENT_CLI_CHAT_FILE_H_
