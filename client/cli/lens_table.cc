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

// `layers.5.layer_output` → `5 layer_output`; other names stay.
std::string RowLabel(const std::string& hook_point) {
  absl::string_view rest = hook_point;
  if (!absl::ConsumePrefix(&rest, "layers.")) return hook_point;
  const size_t dot = rest.find('.');
  const size_t last_dot = rest.rfind('.');
  if (dot == absl::string_view::npos) return hook_point;
  return absl::StrCat(rest.substr(0, dot), " ", rest.substr(last_dot + 1));
}

int NaturalWidth(const LensTable& table, size_t column) {
  int width = std::max(kNarrowestCell - 1, DisplayWidth(table.tokens[column]));
  for (const LensRow& row : table.rows) {
    width = std::max(width, DisplayWidth(row.guesses[column].token));
  }
  // One more for the bar, or for a margin in colour.
  return width + 1;
}

int TotalWidth(const Layout& layout) {
  int total = layout.label_width;
  for (size_t i = layout.first_column; i < layout.widths.size(); ++i) {
    total += 1 + layout.widths[i];
  }
  return total;
}

Layout LayOut(const LensTable& table, int room) {
  Layout layout;
  for (const LensRow& row : table.rows) {
    layout.label_width =
        std::max(layout.label_width, DisplayWidth(RowLabel(row.hook_point)));
  }
  std::vector<int> natural;
  for (size_t i = 0; i < table.tokens.size(); ++i) {
    natural.push_back(NaturalWidth(table, i));
  }
  for (int widest = kWidestCell; widest >= kNarrowestCell; --widest) {
    layout.widths = natural;
    for (int& width : layout.widths) width = std::min(width, widest);
    if (TotalWidth(layout) <= room) return layout;
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
  return Painted(FitTo(guess.token, width, Align::kLeft), style, colors);
}

std::string Line(absl::string_view text) {
  return absl::StrCat(absl::StripTrailingAsciiWhitespace(text), "\n");
}

std::string RenderTitles(const std::vector<std::string>& titles,
                         const Layout& layout, const Style& style,
                         Colors colors) {
  std::string line(static_cast<size_t>(layout.label_width), ' ');
  for (size_t i = layout.first_column; i < titles.size(); ++i) {
    absl::StrAppend(&line, " ",
                    FitTo(titles[i], layout.widths[i], Align::kLeft));
  }
  const std::string text(absl::StripTrailingAsciiWhitespace(line));
  return text.empty() ? "" : Painted(text, style, colors) + "\n";
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
  const Layout layout = LayOut(table, terminal.width);
  std::string text =
      RenderTitles(table.numbers, layout, {.dim = true}, terminal.colors) +
      RenderTitles(table.tokens, layout, {.bold = true}, terminal.colors);
  for (size_t row = table.rows.size(); row-- > 0;) {
    std::string line = FitTo(RowLabel(table.rows[row].hook_point),
                             layout.label_width, Align::kRight);
    for (size_t i = layout.first_column; i < layout.widths.size(); ++i) {
      // The last position, or the best of one position's ranks.
      const size_t answer_column =
          table.numbers.empty() ? 0 : layout.widths.size() - 1;
      const bool is_answer = row + 1 == table.rows.size() && i == answer_column;
      absl::StrAppend(&line, " ",
                      RenderGuess(table.rows[row].guesses[i], layout.widths[i],
                                  is_answer, terminal.colors));
    }
    text += Line(line);
  }
  if (layout.first_column > 0) {
    absl::StrAppend(&text, "(the first ", layout.first_column,
                    " columns do not fit)\n");
  }
  return text + RenderAnswer(table, terminal.colors);
}

}  // namespace phitap::cli
