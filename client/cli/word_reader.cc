#include "client/cli/word_reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/base/status_macros.h"

namespace phitap::cli {

absl::Status WordReader::Refuse(absl::string_view piece,
                                absl::string_view problem) const {
  return quoted_.Refuse(piece, problem, usage_);
}

absl::StatusOr<absl::string_view> WordReader::Next(absl::string_view what) {
  if (words_.empty()) {
    return Refuse(quoted_.End(), absl::StrCat(what, " is missing"));
  }
  const absl::string_view word = words_.front();
  words_.erase(words_.begin());
  return word;
}

absl::StatusOr<client::Source> WordReader::NextSource() {
  ASSIGN_OR_RETURN(const absl::string_view word, Next("a value"));
  return ParseSource(word, quoted_, files_);
}

absl::Status WordReader::Expect(absl::string_view word) {
  ASSIGN_OR_RETURN(const absl::string_view next, Next(word));
  if (next == word) return absl::OkStatus();
  return Refuse(next, absl::StrCat("`", next, "` is not `", word, "`"));
}

std::optional<absl::string_view> WordReader::TakeOption(
    absl::string_view name) {
  const std::string prefix = absl::StrCat(name, "=");
  for (auto word = words_.begin(); word != words_.end(); ++word) {
    absl::string_view value = *word;
    if (!absl::ConsumePrefix(&value, prefix)) continue;
    words_.erase(word);
    return value;
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<double>> WordReader::TakeNumber(
    absl::string_view name) {
  const std::optional<absl::string_view> value = TakeOption(name);
  if (!value) return std::optional<double>();
  ASSIGN_OR_RETURN(const double number, quoted_.Number(*value));
  return std::optional<double>(number);
}

bool WordReader::TakeFlag(absl::string_view name) {
  const auto found = std::find(words_.begin(), words_.end(), name);
  if (found == words_.end()) return false;
  words_.erase(found);
  return true;
}

absl::Status WordReader::End() const {
  if (words_.empty()) return absl::OkStatus();
  return Refuse(words_.front(),
                absl::StrCat("`", words_.front(), "` is not part of it"));
}

}  // namespace phitap::cli
