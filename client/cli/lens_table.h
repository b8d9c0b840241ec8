// The logit lens over layers and positions: what the model would say, early.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CLI_LENS_TABLE_H_
#define PHITAP_CLIENT_CLI_LENS_TABLE_H_

#include <string>
#include <vector>

#include "client/cli/terminal.h"

namespace phitap::cli {

// A token and how likely it is.
struct Guess {
  // As TokenText shows it.
  std::string token;
  double probability = 0;
};

struct LensRow {
  // What was read there, e.g. `layers.5.layer_output`.
  std::string hook_point;
  // The likeliest token at each column.
  std::vector<Guess> guesses;
};

struct LensTable {
  // Over each column: the text of its token, and above that its position
  // (none where the columns are not positions).
  std::vector<std::string> tokens;
  std::vector<std::string> numbers;
  // In forward order, first layer first.
  std::vector<LensRow> rows;
  // The best guesses at the last layer and position, best first, and the token
  // that they would follow.
  std::vector<Guess> answer;
  std::string answer_after;
};

// The tokens across the top, the last layer first below them; each cell is the
// likeliest token, shaded by its probability (with a bar of that height where
// there is no colour). Cells are cut to fit the terminal; where that does not
// do, the earliest positions are left out, and a line says so. Ends with the
// answer.
std::string Render(const LensTable& table, const Terminal& terminal);

}  // namespace phitap::cli

#endif  // PHITAP_CLIENT_CLI_LENS_TABLE_H_
