#include "client/cli/selection_text.h"

#include <functional>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/index_text.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"

namespace phitap::cli {
namespace {

using client::Selection;
using Setter = std::function<absl::Status(
    absl::string_view value, absl::string_view field, Selection* selection)>;

Setter IndexSetter(std::optional<v1::IndexSet> Selection::*member) {
  return [member](absl::string_view value, absl::string_view field,
                  Selection* selection) -> absl::Status {
    ASSIGN_OR_RETURN(selection->*member, ParseIndices(value, field));
    return absl::OkStatus();
  };
}

absl::Status SetPositions(absl::string_view value, absl::string_view field,
                          Selection* selection) {
  ASSIGN_OR_RETURN(selection->positions, ParseIndices(value, field));
  selection->token_ids.clear();
  return absl::OkStatus();
}

absl::Status SetTokenIds(absl::string_view value, absl::string_view field,
                         Selection* selection) {
  ASSIGN_OR_RETURN(selection->token_ids, ParseIds(value, field));
  selection->positions.reset();
  return absl::OkStatus();
}

const std::map<std::string, Setter>& Setters() {
  static const auto* const kSetters = new std::map<std::string, Setter>{
      {"positions", SetPositions},
      {"token-ids", SetTokenIds},
      {"heads", IndexSetter(&Selection::heads)},
      {"features", IndexSetter(&Selection::features)},
      {"queries", IndexSetter(&Selection::queries)},
      {"keys", IndexSetter(&Selection::keys)},
      {"steps", IndexSetter(&Selection::steps)},
  };
  return *kSetters;
}

std::string RangeText(const v1::IndexRange& range) {
  std::string text = range.has_start() ? absl::StrCat(range.start(), ":") : ":";
  if (range.has_stop()) absl::StrAppend(&text, range.stop());
  if (range.has_step()) absl::StrAppend(&text, ":", range.step());
  return text;
}

}  // namespace

const std::vector<std::string>& SelectionOptions() {
  static const auto* const kOptions = new std::vector<std::string>{
      "positions", "token-ids", "heads", "features",
      "queries",   "keys",      "steps"};
  return *kOptions;
}

bool IsSelectionOption(absl::string_view name) {
  return Setters().count(std::string(name)) != 0;
}

absl::Status SetSelectionOption(absl::string_view name, absl::string_view value,
                                absl::string_view field, Selection* selection) {
  const auto found = Setters().find(std::string(name));
  if (found != Setters().end()) return found->second(value, field, selection);
  return InvalidField(
      {.field = std::string(field),
       .problem = absl::StrCat("`", name, "` is not an option here"),
       .valid = absl::StrJoin(SelectionOptions(), ", ")});
}

std::string IndexText(const v1::IndexSet& set) {
  std::vector<std::string> parts;
  for (const int32_t index : set.indices()) {
    parts.push_back(absl::StrCat(index));
  }
  for (const v1::IndexRange& range : set.ranges()) {
    parts.push_back(RangeText(range));
  }
  return absl::StrJoin(parts, ",");
}

std::string SelectionText(const v1::Selection& selection) {
  std::string text;
  const auto add = [&text](absl::string_view name, bool is_set,
                           const v1::IndexSet& set) {
    if (is_set) absl::StrAppend(&text, "@", name, "=", IndexText(set));
  };
  add("positions", selection.has_positions(), selection.positions());
  if (selection.token_ids_size() > 0) {
    absl::StrAppend(&text,
                    "@token-ids=", absl::StrJoin(selection.token_ids(), ","));
  }
  add("heads", selection.has_heads(), selection.heads());
  add("features", selection.has_features(), selection.features());
  add("queries", selection.has_queries(), selection.queries());
  add("keys", selection.has_keys(), selection.keys());
  add("steps", selection.has_steps(), selection.steps());
  return text;
}

}  // namespace phitap::cli
