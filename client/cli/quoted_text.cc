#include "client/cli/quoted_text.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/text_width.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"

namespace phitap::cli {

std::vector<absl::string_view> QuotedText::Words() const {
  return absl::StrSplit(text(), ' ', absl::SkipEmpty());
}

absl::Status QuotedText::PointAt(absl::string_view piece,
                                 const absl::Status& status) const {
  if (status.ok()) return status;
  const absl::string_view before =
      text().substr(0, static_cast<size_t>(piece.data() - text().data()));
  const auto indent = static_cast<size_t>(DisplayWidth(before));
  const auto length = static_cast<size_t>(std::max(DisplayWidth(piece), 1));
  return absl::Status(
      status.code(),
      absl::StrCat(status.message(), "\n  ", text(), "\n  ",
                   std::string(indent, ' '), std::string(length, '^')));
}

absl::Status QuotedText::Refuse(absl::string_view piece,
                                absl::string_view problem,
                                absl::string_view valid) const {
  return PointAt(piece, InvalidField({.field = flag_,
                                      .problem = std::string(problem),
                                      .valid = std::string(valid)}));
}

absl::Status QuotedText::RefuseWord(absl::string_view piece,
                                    absl::string_view is_not,
                                    absl::string_view valid) const {
  return Refuse(piece, absl::StrCat("`", piece, "` is not ", is_not), valid);
}

absl::StatusOr<double> QuotedText::Number(absl::string_view piece) const {
  double number = 0;
  if (absl::SimpleAtod(piece, &number) && std::isfinite(number)) return number;
  return RefuseWord(piece, "a number", "e.g. 0.5 or -3e-2");
}

}  // namespace phitap::cli
