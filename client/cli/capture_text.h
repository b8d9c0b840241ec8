// Captures as people type them.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CLI_CAPTURE_TEXT_H_
#define PHITAP_CLIENT_CLI_CAPTURE_TEXT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cpp/trace_request.h"

namespace phitap::cli {

// One paragraph for --help: the grammar that ParseCapture reads.
extern const char kCaptureGrammar[];

// Sets one option of a capture, by the name that it has as a flag and after an
// `@`: those of a selection, reduce, lens, lens-normed, dtype, runs, read,
// keep. INVALID_ARGUMENT against `field` for a name that is not one of them or
// a value that it cannot have.
absl::Status SetCaptureOption(absl::string_view name, absl::string_view value,
                              absl::string_view field, client::Read* read);

// `before` or `after`.
absl::StatusOr<v1::ReadTime> ParseReadTime(absl::string_view value,
                                           absl::string_view field);

// What `--capture` takes: [NAME=]HOOK_POINTS[@OPTION=VALUE]…; options that it
// does not give are those of `defaults`.
absl::StatusOr<client::Read> ParseCapture(absl::string_view text,
                                          const client::Read& defaults);

}  // namespace phitap::cli

#endif  // PHITAP_CLIENT_CLI_CAPTURE_TEXT_H_
