#include "client/cli/index_text.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"

namespace phitap::cli {
namespace {

absl::StatusOr<int32_t> ParseInt(absl::string_view text,
                                 absl::string_view field,
                                 absl::string_view valid) {
  int32_t value = 0;
  if (absl::SimpleAtoi(text, &value)) return value;
  return InvalidField({.field = std::string(field),
                       .problem = absl::StrCat("`", text, "` is no integer"),
                       .valid = std::string(valid)});
}

constexpr char kValidIndices[] =
    "indices and ranges between commas, e.g. `-1` or `0,3:8,10::2`";

absl::Status AddRange(absl::string_view text, absl::string_view field,
                      v1::IndexSet* set) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ':');
  if (parts.size() > 3) {
    return InvalidField(
        {.field = std::string(field),
         .problem = absl::StrCat("`", text, "` has too many colons"),
         .valid = "START:STOP or START:STOP:STEP"});
  }
  v1::IndexRange* range = set->add_ranges();
  const auto part = [&](size_t i) -> absl::StatusOr<int32_t> {
    return ParseInt(parts[i], field, kValidIndices);
  };
  if (!parts[0].empty()) {
    ASSIGN_OR_RETURN(const int32_t start, part(0));
    range->set_start(start);
  }
  if (!parts[1].empty()) {
    ASSIGN_OR_RETURN(const int32_t stop, part(1));
    range->set_stop(stop);
  }
  if (parts.size() == 3 && !parts[2].empty()) {
    ASSIGN_OR_RETURN(const int32_t step, part(2));
    range->set_step(step);
  }
  return absl::OkStatus();
}

// A single index as a range, since the wire puts ranges after indices.
void AddAsRange(int32_t index, v1::IndexSet* set) {
  v1::IndexRange* range = set->add_ranges();
  range->set_start(index);
  if (index != -1) range->set_stop(index + 1);
}

}  // namespace

absl::StatusOr<v1::IndexSet> ParseIndices(absl::string_view text,
                                          absl::string_view field) {
  const bool has_ranges = absl::StrContains(text, ":");
  v1::IndexSet set;
  for (const absl::string_view item : absl::StrSplit(text, ',')) {
    if (absl::StrContains(item, ":")) {
      RETURN_IF_ERROR(AddRange(item, field, &set));
      continue;
    }
    ASSIGN_OR_RETURN(const int32_t index, ParseInt(item, field, kValidIndices));
    if (has_ranges) {
      AddAsRange(index, &set);
    } else {
      set.add_indices(index);
    }
  }
  return set;
}

absl::StatusOr<std::vector<int32_t>> ParseIds(absl::string_view text,
                                              absl::string_view field) {
  std::vector<int32_t> ids;
  for (const absl::string_view item : absl::StrSplit(text, ',')) {
    ASSIGN_OR_RETURN(
        const int32_t id,
        ParseInt(item, field, "token ids between commas, e.g. `1,5,9`"));
    ids.push_back(id);
  }
  return ids;
}

}  // namespace phitap::cli
