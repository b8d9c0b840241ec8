// Interventions as people type them.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CLI_EDIT_TEXT_H_
#define PHITAP_CLIENT_CLI_EDIT_TEXT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cli/source_text.h"
#include "client/cpp/edit.h"
#include "phitap/v1/intervention.pb.h"

namespace phitap::cli {

// Paragraphs for --help: the grammar that ParseEdit reads.
std::string EditGrammar();

// An edit and the runs that it is for.
struct LabelledEdit {
  // `*` for every run; empty where the text names none.
  std::vector<std::string> runs;
  client::Edit edit;
};

// What `--intervene` takes: [RUNS: ]HOOK_POINTS[@OPTION=VALUE]… EDIT
// [when=NODE]. INVALID_ARGUMENT or NOT_FOUND points at the piece at fault and
// lists what is valid.
absl::StatusOr<LabelledEdit> ParseEdit(absl::string_view text,
                                       FileTensors* files);

// What was typed, or could have been.
std::string EditText(const v1::Intervention& edit);

}  // namespace phitap::cli

#endif  // PHITAP_CLIENT_CLI_EDIT_TEXT_H_
