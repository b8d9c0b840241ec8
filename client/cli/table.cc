#include "client/cli/table.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace phitap::cli {
namespace {

constexpr int kGap = 2;
constexpr int kNarrowestColumn = 8;

std::vector<int> NaturalWidths(const Table& table) {
  std::vector<int> widths;
  for (const Column& column : table.columns) {
    widths.push_back(DisplayWidth(column.title));
  }
  for (const std::vector<Cell>& row : table.rows) {
    for (size_t i = 0; i < widths.size(); ++i) {
      widths[i] = std::max(widths[i], DisplayWidth(row[i].text));
    }
  }
  return widths;
}

// Takes what is too much from the widest of the columns that may shrink.
void Shrink(const Table& table, int room, std::vector<int>* widths) {
  int excess = std::accumulate(widths->begin(), widths->end(), 0) +
               kGap * (static_cast<int>(widths->size()) - 1) - room;
  while (excess > 0) {
    int widest = -1;
    for (size_t i = 0; i < widths->size(); ++i) {
      if (!table.columns[i].may_shrink || (*widths)[i] <= kNarrowestColumn) {
        continue;
      }
      if (widest < 0 || (*widths)[i] > (*widths)[widest]) {
        widest = static_cast<int>(i);
      }
    }
    if (widest < 0) return;
    --(*widths)[widest];
    --excess;
  }
}

std::string RenderRow(const std::vector<Cell>& cells,
                      const std::vector<Column>& columns,
                      const std::vector<int>& widths, Colors colors) {
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) {
    if (i > 0) line.append(kGap, ' ');
    std::string text = FitTo(cells[i].text, widths[i], columns[i].align);
    // What is not coloured in needs no filling up at the end of the line.
    if (i + 1 == cells.size() && !cells[i].style.background) {
      text = std::string(absl::StripTrailingAsciiWhitespace(text));
    }
    line += Painted(text, cells[i].style, colors);
  }
  return absl::StrCat(absl::StripTrailingAsciiWhitespace(line), "\n");
}

}  // namespace

void Table::AddRow(std::vector<std::string> texts) {
  std::vector<Cell> row;
  for (std::string& text : texts) row.push_back({.text = std::move(text)});
  rows.push_back(std::move(row));
}

std::string Render(const Table& table, const Terminal& terminal) {
  std::vector<int> widths = NaturalWidths(table);
  if (terminal.interactive) Shrink(table, terminal.width, &widths);
  std::vector<Cell> titles;
  for (const Column& column : table.columns) {
    titles.push_back({.text = column.title, .style = {.bold = true}});
  }
  std::string text = RenderRow(titles, table.columns, widths, terminal.colors);
  for (const std::vector<Cell>& row : table.rows) {
    text += RenderRow(row, table.columns, widths, terminal.colors);
  }
  return text;
}

}  // namespace phitap::cli
