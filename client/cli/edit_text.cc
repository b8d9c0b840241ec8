#include "client/cli/edit_text.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/cli/change_text.h"
#include "client/cli/quoted_text.h"
#include "client/cli/selection_text.h"
#include "client/cli/word_reader.h"
#include "server/base/status_macros.h"

namespace phitap::cli {
namespace {

constexpr char kFlag[] = "--intervene";

// HOOK_POINTS[@OPTION=VALUE]…
absl::Status ReadPlace(absl::string_view word, const QuotedText& quoted,
                       client::Edit* edit) {
  const std::vector<absl::string_view> pieces = absl::StrSplit(word, '@');
  if (pieces.front().empty()) {
    return quoted.Refuse(word, "the hook point is missing",
                         "e.g. layers.2.layer_output: see `phitap hooks`");
  }
  edit->hook_points = std::string(pieces.front());
  for (size_t i = 1; i < pieces.size(); ++i) {
    const std::pair<absl::string_view, absl::string_view> option =
        absl::StrSplit(pieces[i], absl::MaxSplits('=', 1));
    RETURN_IF_ERROR(quoted.PointAt(
        pieces[i], SetSelectionOption(option.first, option.second,
                                      quoted.flag(), &edit->selection)));
  }
  return absl::OkStatus();
}

}  // namespace

std::string EditGrammar() {
  return absl::StrCat(
      "An intervention is [RUNS: ]HOOK_POINTS[@OPTION=VALUE]... EDIT "
      "[when=NODE]\n"
      "  RUNS         labels of runs between commas, or * for all; default: "
      "the last run\n"
      "  HOOK_POINTS  as a capture's; all must be writable\n"
      "  OPTION       positions, token-ids, heads, features, queries, keys, "
      "steps\n",
      ChangeGrammar(), kSourceGrammar,
      "Several at one place apply in the order given.");
}

absl::StatusOr<LabelledEdit> ParseEdit(absl::string_view text,
                                       FileTensors* files) {
  const QuotedText quoted(kFlag, std::string(text));
  std::vector<absl::string_view> split = quoted.Words();
  LabelledEdit parsed;
  absl::string_view labels = split.empty() ? "" : split.front();
  if (absl::ConsumeSuffix(&labels, ":")) {
    parsed.runs = absl::StrSplit(labels, ',');
    split.erase(split.begin());
  }
  WordReader words(quoted, std::move(split), files);
  words.set_usage("HOOK_POINTS[@OPTION=VALUE]... EDIT");
  ASSIGN_OR_RETURN(const absl::string_view place, words.Next("a hook point"));
  RETURN_IF_ERROR(ReadPlace(place, quoted, &parsed.edit));
  if (const auto when = words.TakeOption("when")) {
    parsed.edit.when = std::string(*when);
  }
  ASSIGN_OR_RETURN(parsed.edit.change, ParseChange(&words));
  return parsed;
}

std::string EditText(const v1::Intervention& edit) {
  return absl::StrCat(edit.hook_points(), SelectionText(edit.selection()), " ",
                      ChangeText(edit),
                      edit.when().empty() ? "" : " when=", edit.when());
}

}  // namespace phitap::cli
