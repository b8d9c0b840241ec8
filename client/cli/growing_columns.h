// Texts that grow side by side, e.g. what a model says plain and steered.
// SPDX-License-Identifier: Apache-2.0
#ifndef PHITAP_CLIENT_CLI_GROWING_COLUMNS_H_
#define PHITAP_CLIENT_CLI_GROWING_COLUMNS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace phitap::cli {

// Text for a terminal: what could move its cursor is escaped, but for newlines.
std::string PrintableText(absl::string_view text);

// Wraps each text in its column, at words where it can. Only the row that still
// grows is ever written again, so that what has been written scrolls as usual.
// Thread-compatible.
class GrowingColumns {
 public:
  // `width` of the terminal.
  GrowingColumns(size_t count, int width);

  int column_width() const { return column_width_; }

  // Adds to a column; returns what to write to the terminal.
  std::string Append(size_t column, absl::string_view text);
  // The rest; nothing may be added afterwards.
  std::string Finish();

 private:
  struct Wrapped {
    std::vector<std::string> lines;
    // The line that grows.
    std::string last;
  };

  void Add(absl::string_view character, Wrapped* column) const;
  std::string Row(size_t row) const;
  bool IsComplete(size_t row) const;

  const int column_width_;
  std::vector<Wrapped> columns_;
  size_t written_rows_ = 0;
};

}  // namespace phitap::cli

#endif  // PHITAP_CLIENT_CLI_GROWING_COLUMNS_H_
