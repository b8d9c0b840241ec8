#include "client/cli/growing_columns.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/cli/text_width.h"

namespace phitap::cli {
namespace {

constexpr char kStartOver[] = "\r\x1b[K";
constexpr char kGap[] = " │ ";
constexpr int kGapWidth = 3;
constexpr int kNarrowestColumn = 8;

// Bytes of the UTF-8 character that begins with this one.
size_t LengthOf(char first) {
  const auto byte = static_cast<unsigned char>(first);
  if (byte >= 0xf0) return 4;
  if (byte >= 0xe0) return 3;
  return byte >= 0xc0 ? 2 : 1;
}

}  // namespace

std::string PrintableText(absl::string_view text) {
  std::string printable;
  for (const char character : text) {
    if (character == '\n' || !absl::ascii_iscntrl(character)) {
      printable.push_back(character);
    } else if (character == '\t') {
      printable += "    ";
    } else {
      printable += TokenText(absl::string_view(&character, 1));
    }
  }
  return printable;
}

GrowingColumns::GrowingColumns(size_t count, int width)
    : column_width_(
          std::max(kNarrowestColumn,
                   (width - kGapWidth * (static_cast<int>(count) - 1)) /
                       static_cast<int>(count))),
      columns_(count) {}

void GrowingColumns::Add(absl::string_view character, Wrapped* column) const {
  if (character == "\n") {
    column->lines.push_back(std::move(column->last));
    column->last.clear();
    return;
  }
  column->last.append(character.data(), character.size());
  if (DisplayWidth(column->last) <= column_width_) return;
  const size_t space = column->last.rfind(' ');
  const bool at_word = space != std::string::npos && space > 0;
  const size_t end = at_word ? space : column->last.size() - character.size();
  column->lines.push_back(column->last.substr(0, end));
  column->last.erase(0, at_word ? end + 1 : end);
}

bool GrowingColumns::IsComplete(size_t row) const {
  return std::all_of(
      columns_.begin(), columns_.end(),
      [row](const Wrapped& column) { return column.lines.size() > row; });
}

std::string GrowingColumns::Row(size_t row) const {
  std::string text;
  for (const Wrapped& column : columns_) {
    absl::string_view line;
    if (row < column.lines.size()) line = column.lines[row];
    if (row == column.lines.size()) line = column.last;
    absl::StrAppend(&text, &column == &columns_.front() ? "" : kGap,
                    FitTo(line, column_width_, Align::kLeft));
  }
  return std::string(absl::StripTrailingAsciiWhitespace(text));
}

std::string GrowingColumns::Append(size_t column, absl::string_view text) {
  const std::string printable = PrintableText(text);
  for (size_t i = 0; i < printable.size();) {
    const size_t length = LengthOf(printable[i]);
    Add(absl::string_view(printable).substr(i, length), &columns_[column]);
    i += length;
  }
  std::string output = kStartOver;
  for (; IsComplete(written_rows_); ++written_rows_) {
    absl::StrAppend(&output, Row(written_rows_), "\n");
  }
  return output + Row(written_rows_);
}

std::string GrowingColumns::Finish() {
  size_t rows = 0;
  for (const Wrapped& column : columns_) {
    rows = std::max(rows, column.lines.size() + (column.last.empty() ? 0 : 1));
  }
  std::string output = kStartOver;
  for (; written_rows_ < rows; ++written_rows_) {
    absl::StrAppend(&output, Row(written_rows_), "\n");
  }
  return output;
}

}  // namespace phitap::cli
