// Edits of a dictionary's features as people type them.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CLI_FEATURE_TEXT_H_
#define PHITAP_CLIENT_CLI_FEATURE_TEXT_H_

#include <string>

#include "absl/status/statusor.h"
#include "client/cli/word_reader.h"
#include "client/cpp/edit.h"
#include "phitap/v1/intervention.pb.h"

namespace phitap::cli {

// What follows the word `features`; lines as --help has them.
inline constexpr char kFeatureUsage[] =
    " DICTIONARY [N=VALUE|N*=VALUE|N+=VALUE|N=run:LABEL]...\n"
    "                 [activation=relu|jump-relu|top-k:K] [encode=HOOK]\n"
    "                 [subtract-decoder-bias] [drop-error]";

absl::StatusOr<client::Change> ParseFeatures(WordReader* words);

// What was typed, or could have been, `features` included.
std::string FeaturesText(const v1::DictionaryEdit& edit);

}  // namespace phitap::cli

#endif  // PHITAP_CLIENT_CLI_FEATURE_TEXT_H_
