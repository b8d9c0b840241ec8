// Text that was typed, whose errors point at the piece at fault.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CLI_QUOTED_TEXT_H_
#define PHITAP_CLIENT_CLI_QUOTED_TEXT_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace phitap::cli {

// The value of a flag. Pieces are views of `text()`; it must stay where it is.
class QuotedText {
 public:
  QuotedText(std::string flag, std::string text)
      : flag_(std::move(flag)), text_(std::move(text)) {}
  QuotedText(const QuotedText&) = delete;
  QuotedText& operator=(const QuotedText&) = delete;

  absl::string_view text() const { return text_; }
  const std::string& flag() const { return flag_; }

  // Between spaces.
  std::vector<absl::string_view> Words() const;

  // The end of the text: where something is missing.
  absl::string_view End() const { return text().substr(text_.size()); }

  // INVALID_ARGUMENT: "FLAG: PROBLEM; valid: VALID", the text, and under it
  // carets at the piece.
  absl::Status Refuse(absl::string_view piece, absl::string_view problem,
                      absl::string_view valid) const;
  // The same, where the problem is that "`PIECE` is not IS_NOT".
  absl::Status RefuseWord(absl::string_view piece, absl::string_view is_not,
                          absl::string_view valid) const;
  // The same status with the text and carets at `piece`.
  absl::Status PointAt(absl::string_view piece,
                       const absl::Status& status) const;

  // A finite number.
  absl::StatusOr<double> Number(absl::string_view piece) const;

 private:
  const std::string flag_;
  const std::string text_;
};

}  // namespace phitap::cli

#endif  // PHITAP_CLIENT_CLI_QUOTED_TEXT_H_
