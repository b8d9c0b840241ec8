#include "client/cli/axis_text.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/cli/index_text.h"
#include "client/cli/quoted_text.h"
#include "client/cli/text_width.h"
#include "client/cpp/positions.h"
#include "server/base/status_macros.h"

namespace phitap::cli {

const char kAxisGrammar[] =
    "Axes are layers[:WINDOW], positions[:SET], heads[:SET] and "
    "scales:NUMBERS between commas, the slowest first\n";

namespace {

constexpr char kValidAxes[] =
    "layers, layers:WINDOW, positions, positions:SET, heads, heads:SET or "
    "scales:NUMBERS between commas";
constexpr char kLayers[] = "layers.";

// At commas behind which a word begins, since sets have commas, too.
std::vector<absl::string_view> SplitAxes(absl::string_view text) {
  std::vector<absl::string_view> axes;
  size_t start = 0;
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    if (text[i] != ',' || !absl::ascii_isalpha(text[i + 1])) continue;
    axes.push_back(text.substr(start, i - start));
    start = i + 1;
  }
  axes.push_back(text.substr(start));
  return axes;
}

absl::Status ReadScales(absl::string_view numbers, const QuotedText& quoted,
                        v1::ScalesAxis* axis) {
  for (const absl::string_view number : absl::StrSplit(numbers, ',')) {
    ASSIGN_OR_RETURN(const double scale, quoted.Number(number));
    axis->add_scales(scale);
  }
  return absl::OkStatus();
}

absl::Status ReadSet(absl::string_view text, const QuotedText& quoted,
                     v1::IndexSet* set) {
  absl::StatusOr<v1::IndexSet> parsed = ParseIndices(text, quoted.flag());
  if (!parsed.ok()) return quoted.PointAt(text, parsed.status());
  *set = *std::move(parsed);
  return absl::OkStatus();
}

absl::StatusOr<v1::SweepAxis> ParseAxis(absl::string_view text,
                                        const QuotedText& quoted) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits(':', 1));
  const auto& [kind, rest] = parts;
  v1::SweepAxis axis;
  if (kind == "layers") {
    int32_t window = 1;
    if (!rest.empty() && (!absl::SimpleAtoi(rest, &window) || window < 1)) {
      return quoted.RefuseWord(rest, "a number of layers", "1 or more");
    }
    axis.mutable_layers()->set_window(window);
    return axis;
  }
  if (kind == "scales" && !rest.empty()) {
    RETURN_IF_ERROR(ReadScales(rest, quoted, axis.mutable_scales()));
    return axis;
  }
  if (kind != "positions" && kind != "heads") {
    return quoted.RefuseWord(text, "an axis", kValidAxes);
  }
  const bool is_heads = kind == "heads";
  if (is_heads) axis.mutable_heads();
  if (!is_heads) axis.mutable_positions();
  if (rest.empty()) return axis;
  RETURN_IF_ERROR(ReadSet(rest, quoted,
                          is_heads
                              ? axis.mutable_heads()->mutable_heads()
                              : axis.mutable_positions()->mutable_positions()));
  return axis;
}

std::vector<int64_t> CountTo(int64_t size) {
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < size; ++i) numbers.push_back(i);
  return numbers;
}

// `8-15`, `{0,5,31}`, `3` as numbers; empty for anything else.
std::vector<int64_t> LayersOf(absl::string_view hook_points) {
  std::vector<int64_t> layers;
  if (!absl::ConsumePrefix(&hook_points, kLayers)) return layers;
  absl::string_view set = hook_points.substr(0, hook_points.rfind('.'));
  set = set.substr(0, set.find('.'));
  absl::ConsumePrefix(&set, "{");
  absl::ConsumeSuffix(&set, "}");
  for (const absl::string_view item : absl::StrSplit(set, ',')) {
    const std::pair<absl::string_view, absl::string_view> ends =
        absl::StrSplit(item, absl::MaxSplits('-', 1));
    int64_t first = 0;
    int64_t last = 0;
    if (!absl::SimpleAtoi(ends.first, &first)) return {};
    last = first;
    if (!ends.second.empty() && !absl::SimpleAtoi(ends.second, &last))
      return {};
    for (int64_t layer = first; layer <= last; ++layer) {
      layers.push_back(layer);
    }
  }
  std::sort(layers.begin(), layers.end());
  return layers;
}

// Those of a set where they are known without the size of the dimension.
std::vector<int64_t> HeadsOf(const v1::HeadsAxis& axis) {
  const auto& indices = axis.heads().indices();
  std::vector<int64_t> heads(indices.begin(), indices.end());
  if (axis.heads().ranges_size() > 0) return {};
  return heads;
}

NamedAxis Named(std::string kind, absl::string_view word,
                std::vector<int64_t> numbers, int64_t size) {
  // What the text leaves open is counted.
  if (static_cast<int64_t>(numbers.size()) != size) numbers = CountTo(size);
  NamedAxis named = {.kind = std::move(kind)};
  for (const int64_t number : numbers) {
    named.values.push_back(static_cast<double>(number));
    named.labels.push_back(absl::StrCat(word, " ", number));
  }
  return named;
}

NamedAxis NamedPositions(const v1::PositionsAxis& axis,
                         const client::TracedRun& run, int64_t size) {
  v1::Selection selection;
  if (axis.has_positions()) *selection.mutable_positions() = axis.positions();
  NamedAxis named = Named("positions", "#",
                          client::ResolvePositions(selection, run.ids), size);
  for (size_t i = 0; i < named.labels.size(); ++i) {
    const auto position = static_cast<size_t>(named.values[i]);
    if (position < run.texts.size()) {
      named.labels[i] = TokenText(run.texts[position]);
    }
  }
  return named;
}

}  // namespace

absl::StatusOr<std::vector<v1::SweepAxis>> ParseAxes(absl::string_view text) {
  const QuotedText quoted("--axes", std::string(text));
  std::vector<v1::SweepAxis> axes;
  for (const absl::string_view axis : SplitAxes(quoted.text())) {
    ASSIGN_OR_RETURN(axes.emplace_back(), ParseAxis(axis, quoted));
  }
  return axes;
}

NamedAxis NameAxis(const v1::SweepAxis& axis, absl::string_view hook_points,
                   const client::TracedRun& run, int64_t size) {
  switch (axis.axis_case()) {
    case v1::SweepAxis::kLayers:
      return Named("layers", "layer", LayersOf(hook_points), size);
    case v1::SweepAxis::kPositions:
      return NamedPositions(axis.positions(), run, size);
    case v1::SweepAxis::kHeads:
      return Named("heads", "head", HeadsOf(axis.heads()), size);
    case v1::SweepAxis::kScales: {
      NamedAxis named = {.kind = "scales"};
      for (const double scale : axis.scales().scales()) {
        named.values.push_back(scale);
        named.labels.push_back(absl::StrCat("×", scale));
      }
      return named;
    }
    case v1::SweepAxis::AXIS_NOT_SET:
      break;
  }
  return Named("axis", "", {}, size);
}

}  // namespace phitap::cli
