// How much room text takes in a terminal, and how tokens are shown there.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CLI_TEXT_WIDTH_H_
#define PHITAP_CLIENT_CLI_TEXT_WIDTH_H_

#include <string>

#include "absl/strings/string_view.h"

namespace phitap::cli {

enum class Align { kLeft, kRight };

// Columns that UTF-8 text takes: wide characters two, combining marks none.
// Does not depend on the locale. Invalid bytes count one each.
int DisplayWidth(absl::string_view text);

// The beginning of `text`, ending in `…` where it does not fit in `width`.
std::string CutTo(absl::string_view text, int width);

// `text` cut to `width` and filled up with spaces to exactly that.
std::string FitTo(absl::string_view text, int width, Align align);

// A token's text on one line: spaces as `·`, newlines and other control
// characters and invalid bytes as escapes (`\n`, `\x07`).
std::string TokenText(absl::string_view token);

}  // namespace phitap::cli

#endif  // PHITAP_CLIENT_CLI_TEXT_WIDTH_H_
