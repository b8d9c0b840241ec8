// Tables with aligned columns.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CLI_TABLE_H_
#define PHITAP_CLIENT_CLI_TABLE_H_

#include <string>
#include <vector>

#include "client/cli/style.h"
#include "client/cli/terminal.h"
#include "client/cli/text_width.h"

namespace phitap::cli {

struct Column {
  std::string title;
  Align align = Align::kLeft;
  // Whether its cells may be cut where the terminal is too narrow.
  bool may_shrink = false;
};

struct Cell {
  std::string text;
  Style style;
};

struct Table {
  std::vector<Column> columns;
  // Each with a cell for every column.
  std::vector<std::vector<Cell>> rows;

  // A row of unstyled cells.
  void AddRow(std::vector<std::string> texts);
};

// One line for the titles and one for each row, each ending in a newline and
// without trailing spaces. In an interactive terminal, tables wider than it
// lose text in the columns that may shrink, the widest first.
std::string Render(const Table& table, const Terminal& terminal);

}  // namespace phitap::cli

#endif  // PHITAP_CLIENT_CLI_TABLE_H_
