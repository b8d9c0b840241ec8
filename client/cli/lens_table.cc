#include "client/cli/lens_table.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "client/cli/text_width.h"

namespace phitap::cli {
namespace {

constexpr int kWidestCell = 12;
constexpr int kNarrowestCell = 5;
constexpr double kAllOfIt = 100;

// Which columns are shown, and how wide.
struct Layout {
  int label_width = 0;
  size_t first_column = 0;
  std::vector<int> widths;
};

// `layers.5.self_attn.attention_output` in two: "5" and the rest. Both empty
// for a name that is not of a layer.
struct LayerName {
  absl::string_view layer;
  absl::string_view rest;
};
LayerName SplitLayer(absl::string_view hook_point) {
  if (!absl::ConsumePrefix(&hook_point, "layers.")) return {};
  const size_t dot = hook_point.find('.');
  if (dot == absl::string_view::npos) return {};
  return {.layer = hook_point.substr(0, dot),
          .rest = hook_point.substr(dot + 1)};
}

// Numbers alone where the same place is read in every layer, which the title
// `layer` explains; else the names.
struct RowLabels {
  std::string title;
  std::vector<std::string> labels;
};
RowLabels LabelsOf(const LensTable& table) {
  RowLabels numbers = {.title = "layer"};
  RowLabels names;
  const absl::string_view place = SplitLayer(table.rows[0].hook_point).rest;
  bool same_place = !place.empty();
  for (const LensRow& row : table.rows) {
    const LayerName name = SplitLayer(row.hook_point);
    same_place = same_place && name.rest == place;
    numbers.labels.emplace_back(name.layer);
    names.labels.push_back(row.hook_point);
  }
  return same_place ? numbers : names;
}

int NaturalWidth(const LensTable& table, size_t column) {
  int width = std::max(kNarrowestCell - 1, DisplayWidth(table.tokens[column]));
  for (const LensRow& row : table.rows) {
    width = std::max(width, DisplayWidth(row.guesses[column].token));
  }
  // One more for the bar, or for a margin in colour.
  return width + 1;
}

// Cells stand side by side: each ends in a bar or a margin of its own.
int TotalWidth(const Layout& layout) {
  int total = layout.label_width + 1;
  for (size_t i = layout.first_column; i < layout.widths.size(); ++i) {
    total += layout.widths[i];
  }
  return total;
}

// Gives what room is left to cut columns, the last positions first: they are
// what the prompt is about.
void UseUp(int room, const std::vector<int>& natural, Layout* layout) {
  int left = room - TotalWidth(*layout);
  for (size_t i = natural.size(); i-- > 0 && left > 0;) {
    if (layout->widths[i] == natural[i]) continue;
    ++layout->widths[i];
    --left;
  }
}

Layout LayOut(const LensTable& table, const RowLabels& labels, int room) {
  Layout layout = {.label_width = DisplayWidth(labels.title)};
  for (const std::string& label : labels.labels) {
    layout.label_width = std::max(layout.label_width, DisplayWidth(label));
  }
  std::vector<int> natural;
  for (size_t i = 0; i < table.tokens.size(); ++i) {
    natural.push_back(NaturalWidth(table, i));
  }
  for (int widest = kWidestCell; widest >= kNarrowestCell; --widest) {
    layout.widths = natural;
    for (int& width : layout.widths) width = std::min(width, widest);
    if (TotalWidth(layout) > room) continue;
    if (widest < kWidestCell) UseUp(room, natural, &layout);
    return layout;
  }
  while (layout.first_column + 1 < layout.widths.size() &&
         TotalWidth(layout) > room) {
    ++layout.first_column;
  }
  return layout;
}

std::string RenderGuess(const Guess& guess, int width, bool is_answer,
                        Colors colors) {
  if (colors == Colors::kNone) {
    return absl::StrCat(FitTo(guess.token, width - 1, Align::kLeft),
                        BarOf(guess.probability));
  }
  Style style = RampStyle(guess.probability);
  style.bold = is_answer;
  style.underlined = is_answer;
  return Painted(FitTo(guess.token, width - 1, Align::kLeft) + " ", style,
                 colors);
}

std::string Line(absl::string_view text) {
  return absl::StrCat(absl::StripTrailingAsciiWhitespace(text), "\n");
}

std::string RenderTitles(absl::string_view corner,
                         const std::vector<std::string>& titles,
                         const Layout& layout, const Style& style,
                         Colors colors) {
  if (titles.empty()) return "";
  std::string line = FitTo(corner, layout.label_width, Align::kRight) + " ";
  for (size_t i = layout.first_column; i < titles.size(); ++i) {
    // A margin, as every cell has one.
    absl::StrAppend(&line, FitTo(titles[i], layout.widths[i] - 1, Align::kLeft),
                    " ");
  }
  return Painted(absl::StripTrailingAsciiWhitespace(line), style, colors) +
         "\n";
}

std::string RenderAnswer(const LensTable& table, Colors colors) {
  if (table.answer.empty()) return "";
  std::string text = absl::StrCat("after ", table.answer_after, ":");
  for (size_t i = 0; i < table.answer.size(); ++i) {
    const Guess& guess = table.answer[i];
    absl::StrAppend(&text, "  ", Painted(guess.token, {.bold = i == 0}, colors),
                    absl::StrFormat(" %.1f%%", guess.probability * kAllOfIt));
  }
  return absl::StrCat(text, "\n");
}

}  // namespace

std::string Render(const LensTable& table, const Terminal& terminal) {
  if (table.rows.empty() || table.tokens.empty()) return "";
  const RowLabels labels = LabelsOf(table);
  const Layout layout = LayOut(table, labels, terminal.width);
  std::string text =
      RenderTitles("", table.numbers, layout, {.dim = true}, terminal.colors) +
      RenderTitles(labels.title, table.tokens, layout, {.bold = true},
                   terminal.colors);
  for (size_t row = table.rows.size(); row-- > 0;) {
    std::string line =
        FitTo(labels.labels[row], layout.label_width, Align::kRight) + " ";
    for (size_t i = layout.first_column; i < layout.widths.size(); ++i) {
      // The last position, or the best of one position's ranks.
      const size_t answer_column =
          table.numbers.empty() ? 0 : layout.widths.size() - 1;
      const bool is_answer = row + 1 == table.rows.size() && i == answer_column;
      absl::StrAppend(&line,
                      RenderGuess(table.rows[row].guesses[i], layout.widths[i],
                                  is_answer, terminal.colors));
    }
    text += Line(line);
  }
  if (layout.first_column > 0) {
    absl::StrAppend(&text, "(", layout.first_column,
                    layout.first_column == 1 ? " earlier position does"
                                             : " earlier positions do",
                    " not fit: see --positions)\n");
  }
  return text + RenderAnswer(table, terminal.colors);
}

}  // namespace phitap::cli
