#include "server/spec/layer_set.h"

#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "server/base/field_error.h"
#include "server/base/status_macros.h"
#include "server/spec/quote.h"

namespace phitap {
namespace {

constexpr char kForms[] = "a layer (5, -1), a range (8-15), * or {0,5,8-10}";

absl::Status MalformedLayers(absl::string_view text, absl::string_view field) {
  return InvalidField(
      {.field = std::string(field),
       .problem = absl::StrCat(Quoted(text), " is not a set of layers"),
       .valid = kForms});
}

// The layer that `text` names, counted from 0.
absl::StatusOr<int> ParseLayer(absl::string_view text, int64_t layer_count,
                               absl::string_view field) {
  int64_t layer = 0;
  if (!absl::SimpleAtoi(text, &layer)) return MalformedLayers(text, field);
  if (layer >= layer_count || layer < -layer_count) {
    return InvalidField(
        {.field = std::string(field),
         .problem =
             absl::StrCat("layer ", layer, " is ",
                          layer < 0 ? "before the first" : "past the last"),
         .valid = absl::StrCat("0 to ", layer_count - 1,
                               ", or -1 (the last) to -", layer_count)});
  }
  return static_cast<int>(layer < 0 ? layer + layer_count : layer);
}

// Marks the layers of one item: a layer or a range.
absl::Status MarkItem(absl::string_view item, absl::string_view field,
                      std::vector<bool>& marked) {
  const int64_t layer_count = static_cast<int64_t>(marked.size());
  // A dash that is not a sign parts the ends of a range.
  const size_t dash = item.find('-', 1);
  if (dash == absl::string_view::npos) {
    ASSIGN_OR_RETURN(const int layer, ParseLayer(item, layer_count, field));
    marked[layer] = true;
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const int first,
                   ParseLayer(item.substr(0, dash), layer_count, field));
  ASSIGN_OR_RETURN(const int last,
                   ParseLayer(item.substr(dash + 1), layer_count, field));
  if (first > last) {
    return InvalidField(
        {.field = std::string(field),
         .problem = absl::StrCat("range ", Quoted(item), " descends"),
         .valid = "the lower layer first; both ends are included"});
  }
  for (int layer = first; layer <= last; ++layer) marked[layer] = true;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<int>> ParseLayers(absl::string_view text,
                                             int64_t layer_count,
                                             absl::string_view field) {
  std::vector<bool> marked(layer_count, text == "*");
  if (text != "*") {
    absl::string_view items = text;
    const bool braced =
        absl::ConsumePrefix(&items, "{") && absl::ConsumeSuffix(&items, "}");
    if (items.empty() || (!braced && items != text)) {
      return MalformedLayers(text, field);
    }
    for (absl::string_view item : absl::StrSplit(items, ',')) {
      if (!braced && item != items) return MalformedLayers(text, field);
      RETURN_IF_ERROR(MarkItem(item, field, marked));
    }
  }
  std::vector<int> layers;
  for (int layer = 0; layer < layer_count; ++layer) {
    if (marked[layer]) layers.push_back(layer);
  }
  return layers;
}

}  // namespace phitap
