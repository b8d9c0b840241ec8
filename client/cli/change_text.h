// What an edit does, as people type it: `set run=clean`, `scale 0`.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CLI_CHANGE_TEXT_H_
#define PHITAP_CLIENT_CLI_CHANGE_TEXT_H_

#include <string>

#include "absl/status/statusor.h"
#include "client/cli/word_reader.h"
#include "client/cpp/edit.h"
#include "phitap/v1/intervention.pb.h"

namespace phitap::cli {

// Lines for --help: every edit and its options.
std::string ChangeGrammar();

// Takes all words that are left. INVALID_ARGUMENT points at what is wrong.
absl::StatusOr<client::Change> ParseChange(WordReader* words);

// What was typed, or could have been.
std::string ChangeText(const v1::Intervention& edit);

}  // namespace phitap::cli

#endif  // PHITAP_CLIENT_CLI_CHANGE_TEXT_H_
