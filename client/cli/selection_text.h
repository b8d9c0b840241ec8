// The part of a value as people type it: `positions=-1`, `heads=0,2`.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CLI_SELECTION_TEXT_H_
#define PHITAP_CLIENT_CLI_SELECTION_TEXT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "client/cpp/selection.h"
#include "phitap/v1/selection.pb.h"

namespace phitap::cli {

// positions, token-ids, heads, features, queries, keys, steps.
const std::vector<std::string>& SelectionOptions();

bool IsSelectionOption(absl::string_view name);

// INVALID_ARGUMENT against `field` for a value that the option cannot have.
// positions and token-ids replace each other.
absl::Status SetSelectionOption(absl::string_view name, absl::string_view value,
                                absl::string_view field,
                                client::Selection* selection);

// What was typed, or could have been: `@positions=-1@heads=0,2`.
std::string SelectionText(const v1::Selection& selection);
std::string IndexText(const v1::IndexSet& set);

}  // namespace phitap::cli

#endif  // PHITAP_CLIENT_CLI_SELECTION_TEXT_H_
