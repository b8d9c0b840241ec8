// The words of an edit, taken one after another.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CLI_WORD_READER_H_
#define PHITAP_CLIENT_CLI_WORD_READER_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cli/quoted_text.h"
#include "client/cli/source_text.h"

namespace phitap::cli {

// Errors are INVALID_ARGUMENT, point at the word at fault and give `usage` as
// what is valid. Everything passed in must outlive it. Thread-compatible.
class WordReader {
 public:
  WordReader(const QuotedText& quoted, std::vector<absl::string_view> words,
             FileTensors* files)
      : quoted_(quoted), words_(std::move(words)), files_(files) {}

  void set_usage(std::string usage) { usage_ = std::move(usage); }
  const QuotedText& quoted() const { return quoted_; }
  bool empty() const { return words_.empty(); }

  // The next word; an error that `what` is missing where there is none.
  absl::StatusOr<absl::string_view> Next(absl::string_view what);
  absl::StatusOr<client::Source> NextSource();
  // The next word must be this one.
  absl::Status Expect(absl::string_view word);

  // Words that may stand anywhere among the rest: `NAME=VALUE` and `NAME`.
  std::optional<absl::string_view> TakeOption(absl::string_view name);
  absl::StatusOr<std::optional<double>> TakeNumber(absl::string_view name);
  bool TakeFlag(absl::string_view name);

  // Nothing may be left.
  absl::Status End() const;
  absl::Status Refuse(absl::string_view piece, absl::string_view problem) const;

 private:
  const QuotedText& quoted_;
  std::vector<absl::string_view> words_;
  FileTensors* const files_;
  std::string usage_;
};

}  // namespace phitap::cli

#endif  // PHITAP_CLIENT_CLI_WORD_READER_H_
