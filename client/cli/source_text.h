// Right-hand sides of edits as people type them.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CLI_SOURCE_TEXT_H_
#define PHITAP_CLIENT_CLI_SOURCE_TEXT_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cli/quoted_text.h"
#include "client/cpp/source.h"
#include "phitap/v1/intervention.pb.h"

namespace phitap::cli {

// Tensors of files, read once however many edits use them: they become the
// request's constants, by the text that named them.
using FileTensors = std::map<std::string, HostTensor>;

// Lines for --help: the forms that a SOURCE has.
extern const char kSourceGrammar[];

// A SOURCE, one of the words of `quoted`; a number, run=, mean=, tensor=,
// file=, constant= or node=. INVALID_ARGUMENT points at what is wrong.
absl::StatusOr<client::Source> ParseSource(absl::string_view word,
                                           const QuotedText& quoted,
                                           FileTensors* files);

// What was typed, or could have been.
std::string SourceText(const v1::EditSource& source);

}  // namespace phitap::cli

#endif  // PHITAP_CLIENT_CLI_SOURCE_TEXT_H_
